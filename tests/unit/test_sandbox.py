from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_md.agents.spec import PathMount
from agent_md.errors import ToolError
from agent_md.tools.globbing import path_pattern
from agent_md.tools.path_sandbox import Sandbox
from tests.support.file_sandbox import FORBIDDEN_FILES, forbidden_in, make_workspace, sandbox_on


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path)


def refusal(path: str) -> str:
    return f"{path} is not a path that this agent may use; files are reached by their path relative to the workspace"


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("notes.txt", "notes.txt"),
        ("./notes.txt", "notes.txt"),
        ("a//b/../notes.txt", "a/notes.txt"),
        ("new/deep/file.txt", "new/deep/file.txt"),
        ("agents/notes.txt", "agents/notes.txt"),
        ("data/other.db", "data/other.db"),
        ("readme.md", "readme.md"),
        ("a ~ b", "a ~ b"),
        ("..notes", "..notes"),
    ],
)
def test_what_lies_in_the_workspace_is_resolved(workspace: Path, path: str, subject: str) -> None:
    resolved = sandbox_on(workspace).resolve(path, write=True)
    assert resolved.subject == subject
    assert resolved.path == workspace / subject
    assert resolved.given == path


def test_an_absolute_path_in_the_workspace_is_the_same_file(workspace: Path) -> None:
    resolved = sandbox_on(workspace).resolve(str(workspace / "notes.txt"), write=False)
    assert resolved.subject == "notes.txt"


@pytest.mark.parametrize("path", FORBIDDEN_FILES)
@pytest.mark.parametrize("write", [True, False])
def test_what_is_forbidden_is_refused(workspace: Path, path: str, write: bool) -> None:
    with pytest.raises(ToolError) as error:
        sandbox_on(workspace).resolve(path, write)
    assert str(error.value) == refusal(path)


@pytest.mark.parametrize(
    "path",
    [
        ".ENV",
        ".Env.Local",
        ".ｅnv",
        "x/.env",
        ".env/inner.txt",
        "AGENTS/Cleaner.MD",
        "agents/new.md",
        "Agents/_CONFIG/x",
        "other/_config/x",
        ".AGENTMD/agentmd.log",
        ".agentmd",
        "Data/RUNS.db",
        "agents/../.env",
        ".GIT/config",
        ".g\u200cit/config",
        "new/.git",
        "a/.Hg",
        ".git/../.git/hooks/post-checkout",
    ],
)
def test_spelling_does_not_help(workspace: Path, path: str) -> None:
    with pytest.raises(ToolError) as error:
        sandbox_on(workspace).resolve(path, write=False)
    assert str(error.value) == refusal(path)


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "../ws-secret/key.txt",
        "sub/../../outside.txt",
        "/etc/passwd",
        "/",
        "~/x",
        "~root/x",
        "..",
        "/proc/self/fd/0",
        "/dev/null",
        "x" * 5000,
        "\ud800",
    ],
)
def test_what_lies_outside_is_refused_with_the_same_text(workspace: Path, path: str) -> None:
    with pytest.raises(ToolError, match="is not a path that this agent may use; files are reached by their path"):
        sandbox_on(workspace).resolve(path, write=False)


def test_a_nul_byte_is_refused(workspace: Path) -> None:
    with pytest.raises(ToolError) as error:
        sandbox_on(workspace).resolve("notes.txt\0.png", write=False)
    assert str(error.value) == refusal("notes.txt\\0.png")


@pytest.mark.parametrize(
    "target", ["../outside.txt", "../missing.txt", ".env", "agents/cleaner.md", "nothing-here", "link"]
)
def test_a_link_to_what_is_forbidden_or_to_nothing_is_refused(workspace: Path, target: str) -> None:
    (workspace / "link").symlink_to(target)
    with pytest.raises(ToolError) as error:
        sandbox_on(workspace).resolve("link", write=True)
    assert str(error.value) == refusal("link")


def test_a_folder_that_is_a_link_out_is_refused(workspace: Path) -> None:
    (workspace / "out").symlink_to("../ws-secret")
    with pytest.raises(ToolError):
        sandbox_on(workspace).resolve("out/key.txt", write=False)


def test_a_link_inside_stands_for_its_target(workspace: Path) -> None:
    (workspace / "link").symlink_to("notes.txt")
    assert sandbox_on(workspace).resolve("link", write=True).subject == "notes.txt"


@pytest.mark.parametrize("target", FORBIDDEN_FILES)
def test_a_hard_link_to_a_forbidden_file_is_refused(workspace: Path, target: str) -> None:
    os.link(workspace / target, workspace / "harmless.txt")
    with pytest.raises(ToolError) as error:
        sandbox_on(workspace).resolve("harmless.txt", write=False)
    assert str(error.value) == refusal("harmless.txt")


def test_other_hard_links_are_files_like_any(workspace: Path) -> None:
    os.link(workspace / "notes.txt", workspace / "again.txt")
    assert sandbox_on(workspace).resolve("again.txt", write=True).subject == "again.txt"


def test_what_an_agent_file_links_to_is_an_agent_file(workspace: Path) -> None:
    (workspace / "library").mkdir()
    (workspace / "library" / "shared.txt").write_text("secret")
    (workspace / "agents" / "shared.md").symlink_to("../library/shared.txt")
    with pytest.raises(ToolError):
        sandbox_on(workspace).resolve("library/shared.txt", write=True)


class TestDeclaredPaths:
    @pytest.fixture
    def sandbox(self, workspace: Path, tmp_path: Path) -> Sandbox:
        mounts = [
            PathMount("out", "reports"),
            PathMount("ref", str(tmp_path / "ws-secret"), mode="ro"),
            PathMount("note", "notes.txt"),
            PathMount("inner", "reports/fixed", mode="ro"),
        ]
        (workspace / "reports" / "fixed").mkdir(parents=True)
        return sandbox_on(workspace, mounts)

    @pytest.mark.parametrize(
        ("path", "subject"),
        [
            ("out/a.txt", "out/a.txt"),
            ("ref/key.txt", "ref/key.txt"),
            ("note", "note"),
            ("reports/a.txt", "out/a.txt"),
            ("notes.txt", "note"),
            ("out/fixed/a.txt", "inner/a.txt"),
            ("out", "out"),
        ],
    )
    def test_a_file_has_one_subject_however_it_is_reached(self, sandbox: Sandbox, path: str, subject: str) -> None:
        assert sandbox.resolve(path, write=False).subject == subject

    @pytest.mark.parametrize(
        "path", ["other.txt", "agents/x.txt", "out/../sub/x", "ref/../outside.txt", "note/x/../../sub"]
    )
    def test_nothing_else_is_reached(self, sandbox: Sandbox, path: str) -> None:
        with pytest.raises(ToolError) as error:
            sandbox.resolve(path, write=False)
        assert str(error.value) == (
            f"{path} is not a path that this agent may use; files are reached as out/…, ref/…, note/…, inner/…"
        )

    @pytest.mark.parametrize("path", ["ref/key.txt", "inner/new.txt", "out/fixed/new.txt"])
    def test_a_read_only_path_is_not_written(self, sandbox: Sandbox, path: str) -> None:
        with pytest.raises(ToolError, match="read-only"):
            sandbox.resolve(path, write=True)

    def test_what_is_forbidden_stays_so_in_a_declared_path(self, workspace: Path) -> None:
        mounts = [PathMount("all", "."), PathMount("state", ".agentmd"), PathMount("key", ".env")]
        sandbox = sandbox_on(workspace, mounts)
        for path in ("all/.env", "all/agents/cleaner.md", "state/agentmd.log", "key", "all/data/runs.db"):
            with pytest.raises(ToolError):
                sandbox.resolve(path, write=False)


class TestOpening:
    def test_a_folder_swapped_for_a_link_after_the_check_is_refused(self, workspace: Path) -> None:
        (workspace / "a" / "b").mkdir(parents=True)
        sandbox = sandbox_on(workspace)
        resolved = sandbox.resolve("a/b/new.txt", write=True)
        (workspace / "a").rename(workspace / "was-a")
        (workspace / "a").symlink_to("was-a")
        with pytest.raises(ToolError) as error, sandbox.open_folder(resolved.path.parent, resolved.given, create=True):
            pass
        assert str(error.value) == refusal("a/b/new.txt")

    def test_a_missing_folder_is_none_and_can_be_made(self, workspace: Path) -> None:
        sandbox = sandbox_on(workspace)
        target = sandbox.resolve("new/deep/x.txt", write=True)
        with sandbox.open_folder(target.path.parent, target.given) as folder:
            assert folder is None
        assert not (workspace / "new").exists()
        with sandbox.open_folder(target.path.parent, target.given, create=True) as folder:
            assert folder is not None
            assert os.path.samestat(os.fstat(folder), (workspace / "new" / "deep").stat())

    def test_no_descriptor_is_left_open(self, workspace: Path) -> None:
        sandbox = sandbox_on(workspace)
        target = sandbox.resolve("new/deep/x.txt", write=True)
        before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else os.listdir("/dev/fd")
        for create in (False, True):
            with sandbox.open_folder(target.path.parent, target.given, create=create):
                pass
        after = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else os.listdir("/dev/fd")
        assert len(after) == len(before)


def test_the_workspace_may_itself_be_a_link(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("ws")
    sandbox = Sandbox(tmp_path / "here", (), forbidden_in(tmp_path / "here"))
    assert sandbox.resolve("notes.txt", write=True).path == workspace / "notes.txt"
    with pytest.raises(ToolError):
        sandbox.resolve("agents/cleaner.md", write=False)


class TestAnAliasInBraces:
    MOUNTS = (PathMount("out", "output"), PathMount("data", "data", mode="ro"))

    def test_means_the_alias(self, workspace: Path) -> None:
        sandbox = sandbox_on(workspace, self.MOUNTS)
        for spelled in ("{out}/a.txt", "./{out}//a.txt", "out/a.txt"):
            resolved = sandbox.resolve(spelled, write=True)
            assert (resolved.subject, resolved.path) == ("out/a.txt", workspace / "output/a.txt")
        assert sandbox.resolve("{out}", write=False).subject == "out"
        with pytest.raises(ToolError, match="is read-only"):
            sandbox.resolve("{data}/a.txt", write=True)

    @pytest.mark.parametrize("path", ["{in}/a.txt", "{}/a.txt", "{ out }/a.txt", "{OUT}/a.txt", "{out}/../notes.txt"])
    def test_that_is_unknown_is_an_error_that_lists_them(self, workspace: Path, path: str) -> None:
        with pytest.raises(ToolError) as error:
            sandbox_on(workspace, self.MOUNTS).resolve(path, write=False)
        assert str(error.value) == f"{path} is not a path that this agent may use; files are reached as out/…, data/…"

    def test_is_a_name_like_any_other_where_there_are_no_aliases_and_further_on(self, workspace: Path) -> None:
        assert sandbox_on(workspace).resolve("{out}/a.txt", write=True).subject == "{out}/a.txt"
        assert sandbox_on(workspace, self.MOUNTS).resolve("out/{data}/a.txt", write=True).subject == "out/{data}/a.txt"


def test_a_declared_path_that_comes_to_lead_where_it_may_not_is_refused(workspace: Path) -> None:
    outside = workspace.parent / "ws-secret"
    (workspace / "open").mkdir()
    sandbox = Sandbox(
        workspace,
        [PathMount("d", "open", "rw")],
        forbidden_in(workspace),
        permitted=lambda path, writable: path.is_relative_to(workspace),
    )
    assert sandbox.resolve("d/key.txt", write=True).subject == "d/key.txt"
    (workspace / "open").rename(workspace / "old")
    (workspace / "open").symlink_to(outside)
    for path in ("d/key.txt", "open/key.txt", str(outside / "key.txt")):
        with pytest.raises(ToolError, match="is not a path that this agent may use"):
            sandbox.resolve(path, write=False)
    with pytest.raises(ToolError, match="is not a path that this agent may use"):
        path_pattern(sandbox, "d/*")
