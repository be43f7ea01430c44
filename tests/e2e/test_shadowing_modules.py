"""Python files of a workspace never pass for modules of the processes that agentmd starts."""

from __future__ import annotations

import ast
from pathlib import Path

import agent_md
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call

_NAMES = ("yaml", "typer", "sitecustomize", "agent_md")
_MARK = 'open({mark!r}, "a").write("ran")\nraise SystemExit(1)\n'


def test_what_an_agent_moved_into_place_does_not_run(folder: AgentFolder, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = _MARK.format(mark=str(mark))
    folder.agent(
        "mover",
        [{"calls": [call("file_edit", path=f"{name}.txt", old_text="text\n", new_text=source)]} for name in _NAMES]
        + [{"calls": [call("file_move", source=f"{name}.txt", destination=f"{name}.py")]} for name in _NAMES]
        + [{"text": "Done."}],
    )
    folder.agent("worker", [{"text": "Done."}])
    for name in _NAMES:
        folder.file(f"{name}.txt")
    assert folder.cli("run", "mover").code == 0
    assert (folder.path / "yaml.py").read_text() == source
    assert folder.cli("run", "worker", "--detach").code == 0
    folder.until_status(Status.SUCCESS, 2)
    assert folder.cli("start", "--detach").code == 0
    assert folder.cli("stop").code == 0
    assert not mark.exists()


def test_the_interpreter_is_started_in_one_place_only() -> None:
    package = Path(agent_md.__file__).parent
    naming = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "executable"
    }
    assert naming == {"python_command.py", "isolation/bubblewrap.py"}  # the second one shows it in a sandbox
