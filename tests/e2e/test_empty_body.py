"""A file with settings and no text: it runs, and `validate` warns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder


@pytest.mark.parametrize("body", ["", "\n", " \n\n"])
def test_validate_warns_of_an_agent_without_text(tmp_path: Path, body: str) -> None:
    folder = AgentFolder(tmp_path)
    folder.agent("mute", [{"text": "Done."}])
    path = folder.path / "agents/mute.md"
    text = path.read_text()
    assert "has no text below its settings" not in folder.cli("validate").out
    path.write_text(text[: text.index("---", 3) + 4] + body)
    checked = folder.cli("validate")
    assert checked.code == 0
    assert "note: agents/mute.md has no text below its settings: the model is not told what mute is for" in checked.out
    assert folder.cli("run", "mute").code == 0
