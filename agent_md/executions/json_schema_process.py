"""The program that validates one answer with the JSON Schema of its request; `json_schema.check_answer` starts it.

A process of its own, because a schema may demand work without end (a regular expression, references to references),
which nothing but the end of a process stops. It gets `[schema, value]` as JSON on its standard input and says what is
wrong as an object on its standard output. It imports nothing of this package, and never uses the network.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

CPU_S = 2
"""Time of computing, not of the clock: a busy machine refuses no answer."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    schema, value = json.load(sys.stdin)
    try:
        result = check(schema, value)
    except Exception as error:  # whatever a schema of others makes of the validator
        result = {"unusable": type(error).__name__}
    print(json.dumps(result))


def check(schema: Any, value: Any) -> dict[str, Any]:
    """`{}` for a value that fits; the `path` of what does not and a `message`; or why the schema is `unusable`."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        error = best_match(kind(schema, registry=Registry()).iter_errors(value))  # an empty registry fetches nothing
    except Unresolvable as missing:
        return {"unusable": f"it refers to {missing.ref!r}, which is not in it"}
    return {} if error is None else {"path": list(error.absolute_path), "message": error.message}


if __name__ == "__main__":
    main()
