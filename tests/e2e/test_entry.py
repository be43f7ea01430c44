"""The first moment of a command, in which everything is imported."""

from __future__ import annotations

import subprocess
import sys

PRESSED_WHILE_IMPORTING = """
import sys

class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Pressed())
from agent_md.cli.entry import main
main()
"""


def test_ctrl_c_is_no_reason_for_a_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", PRESSED_WHILE_IMPORTING], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
