"""The arguments of `http_request`: what they may be, the one way to write them, and which secrets they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_md.outbound.urls import PLACEHOLDER, normalised_url, outside_query
from agent_md.tools.arguments import check_arguments, object_schema, refuse_arguments

__all__ = ["CONTROL", "FREE_METHODS", "PARAMETERS", "checked_arguments", "is_free", "secrets_in"]

FREE_METHODS = ("GET", "HEAD")
"""They change nothing: they run unasked, and may be repeated."""

PARAMETERS = object_schema(
    {
        "url": {
            "type": "string",
            "minLength": 1,
            "maxLength": 8000,
            "description": "An http or https address. ${NAME} of a secret may stand in its query.",
        }
    },
    {
        "method": {
            "type": "string",
            "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
            "description": "GET if not given.",
        },
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Texts by name. ${NAME} of a secret may stand in them.",
        },
        "body": {"type": "string", "description": "What is sent; not with GET and HEAD. JSON is given as text."},
        "as": {
            "type": "string",
            "enum": ["text", "markdown", "json"],
            "description": "How the answer is shown: text as it is (if not given), a page as markdown, or json.",
        },
    },
)

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MOST_HEADERS = 50
_LONGEST_VALUE = 8000
_OF_THE_CONNECTION = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer"),
        *("keep-alive", "proxy-authorization", "proxy-connection", "accept-encoding"),
    )
)
_OF_METHODS = frozenset({"x-http-method", "x-http-method-override", "x-method-override"})


def checked_arguments(tool: str, args: dict[str, Any], known: Mapping[str, object]) -> dict[str, Any]:
    """The arguments as they are shown and sent: the method in capitals, the address normalised. `known` are the secrets of
    the agent by name. Raises InvalidArguments naming each field that does not fit."""
    if isinstance(args.get("method"), str):
        args = {**args, "method": args["method"].upper()}
    args = {"method": "GET", **check_arguments(tool, PARAMETERS, args)}
    problems = [*_url_problems(args["url"]), *_header_problems(args.get("headers", {})), *_body_problems(args)]
    unknown = sorted({name for name in _placeholders(args) if name not in known})
    listed = f"those that it may use are {', '.join(sorted(known))}" if known else "it may use none"
    problems += [f"${{{name}}}: this agent has no such secret; {listed}" for name in unknown]
    problems += [
        f"body: ${{{name}}} is not filled in a body; a secret stands in a header or in the query"
        for name in sorted({found[1] for found in PLACEHOLDER.finditer(args.get("body", ""))} & set(known))
    ]
    if problems:
        raise refuse_arguments(tool, problems)
    return {**args, "url": normalised_url(args["url"])}


def is_free(args: Mapping[str, Any]) -> bool:
    """Whether the method of the call changes nothing."""
    return str(args.get("method", "GET")).upper() in FREE_METHODS


def secrets_in(args: Mapping[str, Any]) -> frozenset[str]:
    """The names of the secrets that stand in the query and in headers."""
    return frozenset(_placeholders(args))


def _placeholders(args: Mapping[str, Any]) -> Iterator[str]:
    texts = [args["url"].partition("?")[2], *args.get("headers", {}).values()]
    yield from (found[1] for text in texts for found in PLACEHOLDER.finditer(text))


def _url_problems(url: str) -> Iterator[str]:
    if PLACEHOLDER.search(outside_query(url)):
        yield "url: a secret stands in the query or in a header, never in the host or the path"
        return
    try:
        normalised_url(url)
    except ValueError as error:
        yield f"url: {error}"


def _header_problems(headers: Mapping[str, str]) -> Iterator[str]:
    if len(headers) > _MOST_HEADERS:
        yield f"headers: at most {_MOST_HEADERS} are sent"
    if len({name.lower() for name in headers}) < len(headers):
        yield "headers: one is given twice"
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            yield f"headers: {name[:100]!r} is no name of a header"
        elif name.lower() in _OF_THE_CONNECTION:
            yield f"headers: {name} is set by the connection; leave it out"
        elif name.lower() in _OF_METHODS:
            yield f"headers: {name} would make it another method; give that as method"
        elif CONTROL.search(value) or len(value) > _LONGEST_VALUE:
            yield f"headers: {name} has a line break or a control character, or is longer than {_LONGEST_VALUE}"


def _body_problems(args: Mapping[str, Any]) -> Iterator[str]:
    if "body" in args and is_free(args):
        yield f"body: {args['method']} has none; put it into the query, or use another method"
