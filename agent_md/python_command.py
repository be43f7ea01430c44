"""The command that starts a process of this package; the only place that names the interpreter."""

from __future__ import annotations

import sys

__all__ = ["python_command"]


def python_command(*arguments: str) -> list[str]:
    """The command line that runs this interpreter with `arguments`, such as `-m MODULE`.

    With `-P`: the current folder, which is a workspace, and the folder of a script are not on the path of modules, so
    that no file of a workspace can pass for a module.
    """
    return [sys.executable, "-P", *arguments]
