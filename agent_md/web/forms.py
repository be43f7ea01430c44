"""Reads forms that browsers send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.requests import Request

__all__ = ["Form", "form_of", "read_form"]

_FIELDS = 2000
_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, each with its values in their order."""

    fields: Mapping[str, Sequence[str]]

    def text(self, name: str) -> str:
        """The first value of a field, "" without one. Line ends are `\\n`, which browsers send as `\\r\\n`."""
        values = self.fields.get(name)
        return values[0].replace("\r\n", "\n") if values else ""

    def texts(self, name: str) -> list[str]:
        return [value.replace("\r\n", "\n") for value in self.fields.get(name, ())]

    def has(self, name: str) -> bool:
        return name in self.fields


async def read_form(request: Request) -> Form | None:
    """The form in the body; None for a body of another kind, in no UTF-8, or with too many fields."""
    body = await request.body()
    if not body:
        return Form({})
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        return None
    try:
        text = body.decode("ascii")
        return Form(parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS))
    except ValueError:
        return None


def form_of(request: Request) -> Form:
    """The form that the guard has read."""
    form: Form = request.state.form
    return form
