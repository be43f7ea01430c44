"""Scanning the agents of a workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_md.agents.defaults import Defaults
from agent_md.agents.registry import Registry, scan
from agent_md.errors import AgentFileInvalid, UnknownAgent
from tests.support.agent_texts import agent_file


def write(workspace: Path, file: str, settings: str = "") -> Path:
    path = workspace / "agents" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(agent_file(settings))
    return path


def scanned(workspace: Path, defaults: Defaults | None = None) -> Registry:
    return scan(workspace / "agents", workspace, defaults or Defaults())


def names(registry: Registry) -> list[str]:
    return [entry.spec.name for entry in registry.agents]


def invalid(registry: Registry) -> dict[str, str]:
    return {file.file: file.error for file in registry.invalid}


def test_no_folder_has_no_agents(tmp_path: Path) -> None:
    assert scanned(tmp_path) == Registry((), ())


def test_agents_are_found_below_the_folder_and_sorted_by_name(tmp_path: Path) -> None:
    write(tmp_path, "zebra.md", "name: alpha")
    write(tmp_path, "team/deep/Beta.md")
    for other in ("beta.memory.md", "_config/skills/SKILL.md", "team/_config/x.md", ".hidden.md", ".git/x.md", "a.txt"):
        write(tmp_path, other)

    registry = scanned(tmp_path)

    assert names(registry) == ["alpha", "Beta"]
    assert registry.invalid == ()
    assert [entry.spec.source_path for entry in registry.agents] == ["agents/zebra.md", "agents/team/deep/Beta.md"]
    assert registry.agents[0].path == tmp_path / "agents/zebra.md"


def test_bad_files_are_listed_and_hide_nothing(tmp_path: Path) -> None:
    for number in range(10):
        write(tmp_path, f"good{number}.md")
    agents = tmp_path / "agents"
    write(tmp_path, "yaml.md", "description: Fix: things")
    (agents / "latin.md").write_bytes(b"---\nname: M\xfcll\n---\n")
    (agents / "folder.md").mkdir()
    (agents / "dangling.md").symlink_to("nowhere")
    (agents / "loop.md").symlink_to("loop.md")
    (agents / "linked.md").symlink_to("folder.md")
    os.mkfifo(agents / "pipe.md")
    (agents / "huge.md").write_bytes(b"---\n---\n" + b"x" * (8 * 1024 * 1024))
    (agents / "empty.md").touch()
    (agents / "sub").mkdir()
    (agents / "sub" / "up").symlink_to("..")

    registry = scanned(tmp_path)

    assert names(registry) == [f"good{number}" for number in range(10)]
    reasons = {
        "agents/dangling.md": "is a link to nothing",
        "agents/empty.md": "the file is empty",
        "agents/folder.md": "is a folder, not a file",
        "agents/huge.md": "is larger than 8192 KiB",
        "agents/latin.md": "not UTF-8: byte 0xfc in line 2",
        "agents/linked.md": "is a folder, not a file",
        "agents/loop.md": "cannot be read",
        "agents/pipe.md": "is a named pipe, not a file",
        "agents/yaml.md": 'write description: "Fix: things"',
    }
    assert list(invalid(registry)) == list(reasons)
    for file, error in invalid(registry).items():
        assert error.startswith(f"{file}:")
        assert reasons[file] in error


def test_a_file_name_that_is_no_text_is_listed_as_text(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    Path(os.fsdecode(bytes(tmp_path / "agents") + b"/b\xff.md")).write_bytes(agent_file(""))

    registry = scanned(tmp_path)

    assert names(registry) == ["a"]
    [(file, error)] = invalid(registry).items()
    assert file.startswith("agents/b\\")
    assert file.isascii()
    assert error == f"{file}: the file's own name is not UTF-8; rename it"


def test_a_folder_that_cannot_be_listed_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file")

    assert "the folder cannot be read: Not a directory" in invalid(scanned(tmp_path))["agents"]


def test_a_linked_file_and_a_linked_root_are_read(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "real.txt").write_bytes(agent_file(""))
    (elsewhere / "linked.md").symlink_to("real.txt")
    (tmp_path / "agents").symlink_to(elsewhere)

    assert names(scanned(tmp_path)) == ["linked"]


@pytest.mark.parametrize("other", ["CLEANER", "cleaner", "Cleaner"])
def test_names_that_compare_equal_are_both_refused(tmp_path: Path, other: str) -> None:
    write(tmp_path, "a.md", "name: Cleaner")
    write(tmp_path, "b.md", f"name: {other}")
    write(tmp_path, "c.md")

    registry = scanned(tmp_path)

    assert names(registry) == ["c"]
    assert "is also that of agents/b.md" in invalid(registry)["agents/a.md"]
    assert "is also that of agents/a.md" in invalid(registry)["agents/b.md"]
    with pytest.raises(AgentFileInvalid, match=r"agents/a\.md(.|\n)*agents/b\.md"):
        registry.get("cleaner")


def test_composed_and_decomposed_names_are_one(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "name: Gr\u00f6\u00dfe")
    registry = scanned(tmp_path)

    assert registry.get("GRO\u0308SSE").spec.name == "Gr\u00f6\u00dfe"
    write(tmp_path, "b.md", "name: gro\u0308\u00dfe")
    assert len(scanned(tmp_path).invalid) == 2


def test_an_unknown_name_gets_the_nearest_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownAgent, match="has no agents yet"):
        scanned(tmp_path).get("x")
    write(tmp_path, "cleaner.md")
    write(tmp_path, "old.md", "name: Reporter")
    registry = scanned(tmp_path)

    with pytest.raises(UnknownAgent, match='no agent "claener"; did you mean cleaner'):
        registry.get("claener")
    with pytest.raises(UnknownAgent, match=r'agents/old\.md is the agent "Reporter"'):
        registry.get("old")
    with pytest.raises(UnknownAgent, match="the agents are cleaner, Reporter"):
        registry.get("zzz")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ("hooks: 1", "broken"),
        ("name: Bar\nhooks: 1", "bar"),
        ("name: Bar\ndescription: a: b", "Bar"),
        ("description: a: b\nname: 'Bar'", "bar"),
        ("name: Bar\ndescription: a: b", "broken"),
    ],
)
def test_asking_for_an_invalid_file_gives_its_mistakes(tmp_path: Path, settings: str, name: str) -> None:
    write(tmp_path, "broken.md", settings)

    with pytest.raises(AgentFileInvalid, match=r"agents/broken\.md:\d"):
        scanned(tmp_path).get(name)


def test_a_disabled_agent_is_an_agent(tmp_path: Path) -> None:
    write(tmp_path, "off.md", "enabled: no")

    assert scanned(tmp_path).get("off").spec.enabled is False


def test_the_current_spec_follows_file_and_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, "a.md")
    before = scanned(tmp_path)

    assert before.current_spec("A") == before.get("a").spec
    assert scanned(tmp_path, Defaults(confirm_tools=())).current_spec("a") != before.current_spec("a")
    assert scanned(tmp_path, Defaults(confirm_tools=())).get("a").source_digest == before.get("a").source_digest
    path.write_bytes(agent_file("", body="Other"))
    assert scanned(tmp_path).current_spec("a") != before.current_spec("a")
    path.write_bytes(agent_file("hooks:"))
    assert scanned(tmp_path).current_spec("a") is None
    path.unlink()
    assert scanned(tmp_path).current_spec("a") is None


class TestLastGood:
    """A file that was valid and is not any more: its agent goes on, and the file is listed as invalid."""

    def test_a_broken_file_keeps_its_agent_and_is_told(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.md", "description: Before")
        write(tmp_path, "b.md")
        before = scanned(tmp_path)
        path.write_bytes(path.read_bytes()[:20])
        now = scanned(tmp_path).with_last_good(before)
        assert now.get("a").spec == before.get("a").spec
        assert names(now) == ["a", "b"]
        (file,) = now.invalid
        assert (file.file, file.last_good) == ("agents/a.md", "a")
        assert file.error.startswith("agents/a.md")
        assert scanned(tmp_path).with_last_good(now).get("a").spec == before.get("a").spec

    @pytest.mark.parametrize("content", [b"", b"---\n", b"---\nname: [\n", b"\xff\xfe", b"---\nmodle: x\n---\n"])
    def test_whatever_is_wrong_with_it(self, tmp_path: Path, content: bytes) -> None:
        path = write(tmp_path, "a.md")
        before = scanned(tmp_path)
        path.write_bytes(content)
        assert scanned(tmp_path).with_last_good(before).get("a").spec == before.get("a").spec

    def test_a_mended_file_counts_at_once(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.md")
        before = scanned(tmp_path)
        path.write_bytes(b"")
        broken = scanned(tmp_path).with_last_good(before)
        path.write_bytes(agent_file("description: After"))
        mended = scanned(tmp_path).with_last_good(broken)
        assert mended.get("a").spec.description == "After"
        assert mended.invalid == ()

    def test_a_file_that_is_gone_has_no_agent(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.md")
        before = scanned(tmp_path)
        path.unlink()
        assert scanned(tmp_path).with_last_good(before).agents == ()

    def test_a_file_that_was_never_valid_has_none(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md").write_bytes(b"")
        (file,) = scanned(tmp_path).with_last_good(scanned(tmp_path)).invalid
        assert file.last_good is None

    def test_another_file_that_takes_the_name_has_it(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.md")
        before = scanned(tmp_path)
        path.write_bytes(b"")
        write(tmp_path, "other.md", "name: A")
        now = scanned(tmp_path).with_last_good(before)
        assert now.get("a").spec.source_path == "agents/other.md"
        assert [file.last_good for file in now.invalid] == [None]

    def test_of_two_files_with_one_name_the_first_to_have_it_goes_on(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md")
        before = scanned(tmp_path)
        write(tmp_path, "other.md", "name: A")
        now = scanned(tmp_path).with_last_good(before)
        assert now.get("a").spec.source_path == "agents/a.md"
        assert {file.file: file.last_good for file in now.invalid} == {"agents/a.md": "a", "agents/other.md": None}
