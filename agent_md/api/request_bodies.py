"""Base classes for request bodies, with error messages for unknown keys."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from agent_md.agents.names import nearest
from agent_md.executions.json_values import brief

__all__ = ["NoBody", "RequestBody", "storable"]


class RequestBody(BaseModel):
    """What a client sends: a key that it cannot have is a mistake, and is never left out in silence."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        unknown = [key for key in value if key not in cls.model_fields] if isinstance(value, dict) else []
        if unknown:
            raise ValidationError.from_exception_data(cls.__name__, [_unknown_key(key, cls) for key in unknown])
        return value


def _unknown_key(key: str, model: type[BaseModel]) -> InitErrorDetails:
    near = nearest(key, model.model_fields)
    keys = f"the keys are: {', '.join(model.model_fields)}" if model.model_fields else "it has none"
    hint = f'did you mean "{near}"?' if near else keys
    text = f"{brief(key)} is not a key of this object; {hint}"
    return InitErrorDetails(
        type=PydanticCustomError("extra_forbidden", "{text}", {"text": text}), loc=(key,), input=None
    )


def storable(value: Any) -> Any:
    """The JSON value, if it can be stored and given out again: JSON of others may say more than ours can."""
    if isinstance(value, bytes):  # not read as JSON, for want of its content type
        raise ValueError("the body must be JSON, sent with Content-Type: application/json")
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a text has a lone surrogate") from None
    except ValueError:
        raise ValueError("a number is not finite") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


class NoBody(RequestBody):
    """The body of a route that takes none: nothing, or an object without keys."""

    _checked = model_validator(mode="before")(storable)
