"""Hot reload: what counts when a file changes, what is said, and what stays as it was."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_md.agents.current import CurrentAgents
from agent_md.agents.defaults import Defaults
from agent_md.assembly import Assembly
from agent_md.errors import AgentFileInvalid, TrustUnusable
from agent_md.reloading.agent_files import AgentFiles
from agent_md.reloading.config_files import NEEDS_RESTART, SETTLE_S, ConfigFiles
from agent_md.reloading.loop import ChangeReport, ReloadLoop
from agent_md.reloading.setup import follow_files
from agent_md.reloading.tool_files import ToolFiles
from agent_md.reloading.trust_changes import TrustChanges
from agent_md.settings import KEYS, Settings, load_settings
from agent_md.tools.last_good_modules import LastGoodModules
from agent_md.triggers.waking import FolderEvents
from agent_md.trust.items import Item, Kind
from tests.support.clock import ManualClock
from tests.support.waiting import eventually

AGENT = "---\nname: {name}\nmodel: {{provider: script, name: x}}\n{more}---\nWork.\n"


class Desk:
    """A workspace, and the files of one kind of a server that runs there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ticks = ManualClock()
        (folder / "agents/_config/tools").mkdir(parents=True)
        self.agent("worker")
        self.settings = self.load()
        self.parts = Assembly(self.settings)
        self.agents = CurrentAgents(lambda: self.parts.settings)
        self.agents.keeps_last_good = True

    def load(self) -> Settings:
        return load_settings(self.folder, environ={}, cwd=self.folder, home=self.folder / "home")

    def agent(self, name: str, more: str = "", file: str | None = None) -> Path:
        path = self.folder / f"agents/{file or name}.md"
        path.write_text(AGENT.format(name=name, more=more))
        return path

    def config(self) -> ConfigFiles:
        return ConfigFiles(self.settings, self.parts.use, home=self.folder / "home", ticks=self.ticks)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def told(news: ChangeReport) -> list[dict[str, Any]]:
    return [data for _, data in news.announcements]


class TestConfig:
    def look(self, desk: Desk, config: ConfigFiles) -> list[dict[str, Any]]:
        """Two looks: at the change, and when the files have been left alone."""
        found = told(config.look(at_once=False))
        desk.ticks.advance(SETTLE_S)
        return found + told(config.look(at_once=False))

    def test_a_change_counts_when_the_file_has_been_left_alone(self, desk: Desk) -> None:
        config, path = desk.config(), desk.folder / "config.yaml"
        path.write_text("defaults:\n  timeout: 60\n")
        news = config.look(at_once=False)
        assert (news.unsettled, told(news), desk.parts.settings) == (True, [], desk.settings)
        desk.ticks.advance(SETTLE_S / 2)
        path.write_text("defaults:\n  timeout: 61\n  model: other\n")
        assert config.look(at_once=False).unsettled
        desk.ticks.advance(SETTLE_S / 2)
        assert told(config.look(at_once=False)) == []
        desk.ticks.advance(SETTLE_S / 2)
        (event,) = told(config.look(at_once=False))
        changed = ["defaults.model", "defaults.timeout"]
        assert event == {"event": "updated", "files": ["config.yaml"], "changed": changed, "restart": []}
        assert desk.parts.settings.defaults.settings.timeout == 61
        assert config.look(at_once=False) == ChangeReport()

    def test_half_of_a_file_changes_nothing(self, desk: Desk) -> None:
        path = desk.folder / "config.yaml"
        path.write_text(whole := "log_level: ERROR\ndefaults:\n  timeout: 60\n")
        desk.settings = desk.load()
        config = desk.config()
        for half in ("log_level: ERROR\n", ""):
            path.write_text(half)
            assert told(config.look(at_once=False)) == []
            desk.ticks.advance(SETTLE_S / 2)
            path.write_text(whole)
            assert self.look(desk, config) == []
        path.unlink()
        assert told(config.look(at_once=False)) == []
        path.write_text(whole)
        assert self.look(desk, config) == []
        assert desk.settings == config._running

    def test_asked_for_it_counts_at_once(self, desk: Desk) -> None:
        config = desk.config()
        (desk.folder / "config.yaml").write_text("log_level: ERROR\n")
        (event,) = told(config.look(at_once=True))
        assert event["changed"] == ["log_level"]

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("config.yaml", "defaults: {timeout: soon}"),
            ("config.yaml", "defaults: [\n"),
            (".env", "half a line\n"),
            (".env", "AGENTMD_LOG_LEVEL=LOUD\n"),
            ("home/.config/agentmd/config.yaml", "server:\n  prot: 1\n"),
        ],
    )
    def test_what_is_invalid_is_said_once_and_changes_nothing(self, desk: Desk, file: str, text: str) -> None:
        (desk.folder / "config.yaml").write_text("defaults: {timeout: 60}\n")
        desk.settings = desk.load()
        path = desk.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else None
        config = desk.config()
        path.write_text(text)
        (event,) = self.look(desk, config)
        assert (event["event"], event["files"]) == ("invalid", [file])
        assert str(path) in event["error"] or "AGENTMD_LOG_LEVEL" in event["error"]
        assert event["error"] == config.error
        assert self.look(desk, config) == []
        assert desk.parts.settings is desk.settings or desk.parts.settings.defaults == Defaults()
        if before is None:
            path.unlink()
        else:
            path.write_text(before)
        (mended,) = self.look(desk, config)
        assert mended == {"event": "updated", "files": [file], "changed": [], "restart": []}
        assert config.error is None

    def test_what_needs_a_restart_stays_as_it_is_and_is_named_until_it_is_taken_back(self, desk: Desk) -> None:
        config, path = desk.config(), desk.folder / "config.yaml"
        path.write_text("state_dir: elsewhere\nserver: {port: 1, api_key: k, max_concurrent: 3}\n")
        (event,) = self.look(desk, config)
        assert event["changed"] == ["server.max_concurrent"]
        assert event["restart"] == ["state_dir", "database", "server.port", "server.api_key"]
        now = desk.parts.settings
        assert (now.server.port, now.server.api_key, now.server.max_concurrent) == (None, None, 3)
        assert (now.state_dir, now.database) == (desk.settings.state_dir, desk.settings.database)
        assert now.checkpoint_database == desk.settings.checkpoint_database
        assert (now.origins["server.port"], now.origins["server.max_concurrent"]) == ("default", "config.yaml")
        path.write_text("server: {max_concurrent: 3}\n")
        (event,) = self.look(desk, config)
        assert (event["changed"], event["restart"], config.restart) == ([], [], ())

    def test_every_key_either_counts_at_once_or_is_named_as_one_that_does_not(self, desk: Desk) -> None:
        config = desk.config()
        (desk.folder / "config.yaml").write_text(
            "agents_dir: a\nstate_dir: b\ndatabase: c\ntools_dir: d\nskills_dir: e\nmcp_config: f\n"
            "server: {host: 127.0.0.1, port: 1, api_key: k}\n"
        )
        user = desk.folder / "home/.config/agentmd/config.yaml"
        user.parent.mkdir(parents=True)
        user.write_text("allow_state_on: [fuse.x]\n")
        (event,) = self.look(desk, config)
        assert event["restart"] == [key for key in KEYS if key in NEEDS_RESTART]
        assert len(event["restart"]) == len(NEEDS_RESTART)
        assert event["files"] == ["config.yaml", "home/.config/agentmd/config.yaml"]
        assert desk.parts.settings == desk.settings

    def test_values_of_dotenv_are_not_told(self, desk: Desk) -> None:
        config = desk.config()
        (desk.folder / ".env").write_text("MY_SECRET=hush-hush\n")
        (event,) = self.look(desk, config)
        assert event == {"event": "updated", "files": [".env"], "changed": [], "restart": []}
        (desk.folder / ".env").write_text("# a remark\nMY_SECRET=hush-hush\n")
        assert self.look(desk, config) == []

    def test_prices_follow_their_file(self, desk: Desk) -> None:
        prices = desk.folder / "prices.yaml"
        prices.write_text("prices: {openai/x: {input: 1, output: 1}}\n")
        (desk.folder / "config.yaml").write_text("prices: prices.yaml\n")
        desk.settings = desk.load()
        config = desk.config()
        prices.write_text("prices: {openai/x: {input: 2, output: 2}}\n")
        (event,) = self.look(desk, config)
        assert (event["files"], event["changed"]) == (["prices.yaml"], ["prices"])
        assert desk.parts.prices.own["openai/x"].rates.input == 2
        prices.write_text("prices: {openai/x: {inp")
        (event,) = self.look(desk, config)
        assert event["event"] == "invalid"
        assert desk.parts.prices.own["openai/x"].rates.input == 2


class TestDotenv:
    def test_a_broken_one_says_what_it_said_before(self, desk: Desk) -> None:
        path = desk.folder / ".env"
        path.write_text("ONE=1\n")
        settings = desk.load()
        settings.dotenv_file.keeps_last_good = True
        assert settings.dotenv == {"ONE": "1"}
        path.write_text("ONE=1\nTWO")
        assert settings.environment() == {"ONE": "1"}
        assert "TWO" not in settings.dotenv_file.mistake
        assert f"{path}:2" in settings.dotenv_file.mistake
        path.write_text("ONE=1\nTWO=2\n")
        assert settings.dotenv == {"ONE": "1", "TWO": "2"}


class TestAgents:
    def test_what_is_said_of_each_change(self, desk: Desk) -> None:
        files = AgentFiles(desk.agents, desk.settings.agents_dir)

        def look() -> list[tuple[str, str, str]]:
            found = told(files.look(at_once=False))
            return [(item["event"], item["agent_name"], item["file"]) for item in found]

        assert look() == []
        other = desk.agent("other")
        assert look() == [("loaded", "other", "agents/other.md")]
        desk.agent("other", "description: New.\n")
        assert look() == [("updated", "other", "agents/other.md")]
        other.rename(desk.folder / "agents/moved.md")
        assert look() == [("updated", "other", "agents/moved.md")]
        desk.agent("renamed", file="moved")
        assert look() == [("removed", "other", "agents/moved.md"), ("loaded", "renamed", "agents/moved.md")]
        (desk.folder / "agents/moved.md").write_text("---\nname: renamed\n")
        assert look() == [("invalid", "renamed", "agents/moved.md")]
        assert desk.agents.registry().get("renamed")
        (desk.folder / "agents/moved.md").unlink()
        assert look() == [("removed", "renamed", "agents/moved.md")]
        assert look() == []

    def test_an_invalid_file_that_is_removed_is_said_to_be_gone(self, desk: Desk) -> None:
        files = AgentFiles(desk.agents, desk.settings.agents_dir)
        broken = desk.folder / "agents/broken.md"
        broken.write_text("---\nconfrim: x\nname: mine\n---\n")
        (event,) = told(files.look(at_once=False))
        assert (event["event"], event["agent_name"]) == ("invalid", "mine")
        broken.unlink()
        assert told(files.look(at_once=False)) == [
            {"event": "removed", "agent_name": "mine", "file": "agents/broken.md"}
        ]

    def test_a_second_file_of_a_name_that_goes_leaves_the_agent(self, desk: Desk) -> None:
        files = AgentFiles(desk.agents, desk.settings.agents_dir)
        double = desk.agent("worker", file="double")
        assert {item["event"] for item in told(files.look(at_once=False))} == {"invalid"}
        double.unlink()
        found = [(item["event"], item["agent_name"]) for item in told(files.look(at_once=False))]
        assert found == [("removed", "agents/double.md"), ("updated", "worker")]

    def test_what_is_there_for_a_moment_is_said_even_if_another_one_read_it(self, desk: Desk) -> None:
        files = AgentFiles(desk.agents, desk.settings.agents_dir)
        path = desk.folder / "agents/worker.md"
        whole = path.read_text()
        before = desk.agents.registry().get("worker").spec
        path.write_text(whole[: len(whole) // 2])
        assert desk.agents.registry().get("worker").spec == before
        path.write_text(whole)
        assert [item["event"] for item in told(files.look(at_once=False))] == ["invalid", "updated"]

    def test_new_defaults_make_new_specs(self, desk: Desk) -> None:
        files, config = AgentFiles(desk.agents, desk.settings.agents_dir), desk.config()
        before = desk.agents.registry().get("worker").spec
        (desk.folder / "config.yaml").write_text("defaults: {timeout: 60, confirm_tools: [danger]}\n")
        config.look(at_once=True)
        (event,) = told(files.look(at_once=False))
        assert (event["event"], event["agent_name"]) == ("updated", "worker")
        now = desk.agents.registry().get("worker").spec
        assert (now.settings.timeout, now.confirm_tools) == (60, ("danger",))
        assert before.confirm_tools == ("file_delete", "file_write")


TOOL = "from langchain_core.tools import tool\n\n@tool\ndef {name}() -> str:\n    '''Does it.'''\n    return '{said}'\n"


class TestTools:
    @pytest.fixture
    def module(self, desk: Desk) -> Path:
        desk.agent("worker", "tools: [mine]\n")
        path = desk.folder / "agents/_config/tools/mine.py"
        path.write_text(TOOL.format(name="act", said="one"))
        desk.parts.kept_tools = LastGoodModules()
        return path

    def files(self, desk: Desk) -> ToolFiles:
        assert desk.parts.kept_tools is not None
        return ToolFiles(desk.settings.tools_dir, desk.parts.kept_tools, desk.agents.registry)

    def digest(self, desk: Desk) -> str:
        tools = desk.parts.tools(desk.agents.registry().get("worker").spec)
        source = tools["act"].plan({}).source
        assert source is not None
        return source.digest

    @pytest.mark.parametrize(
        "broken",
        ["from langchain_core.tools import too", "import nowhere_at_all\n", "x = 1\n", "def f(:\n"],
        ids=["half a name", "an import that fails", "no tool in it", "no Python"],
    )
    def test_a_broken_module_is_used_as_it_was(self, desk: Desk, module: Path, broken: str) -> None:
        files, before, whole = self.files(desk), self.digest(desk), module.read_text()
        assert told(files.look(at_once=False)) == []
        module.write_text(broken)
        assert self.digest(desk) == before
        assert desk.parts.tool_source("mine").digest == before
        (event,) = told(files.look(at_once=False))
        assert (event["event"], event["module"], event["agents"]) == ("invalid", "mine", ["worker"])
        assert files.problems == {"mine": event["error"]}
        assert str(module) in event["error"]
        module.write_text(whole)
        assert [item["event"] for item in told(files.look(at_once=False))] == ["updated"]
        assert files.problems == {}

    def test_a_new_source_is_used(self, desk: Desk, module: Path) -> None:
        files, before = self.files(desk), self.digest(desk)
        module.write_text(TOOL.format(name="act", said="two"))
        assert self.digest(desk) != before
        assert [item["event"] for item in told(files.look(at_once=False))] == ["updated"]

    def test_a_module_that_it_imports_counts(self, desk: Desk, module: Path) -> None:
        helper = module.with_name("helper.py")
        helper.write_text("x = 1\n")
        module.write_text("from helper import x\n" + TOOL.format(name="act", said="one"))
        files, before = self.files(desk), self.digest(desk)
        helper.write_text("x = (\n")
        assert self.digest(desk) == before
        (event,) = told(files.look(at_once=False))
        assert (event["event"], event["module"], str(helper) in event["error"]) == ("invalid", "mine", True)

    def test_a_module_that_was_deleted_is_gone(self, desk: Desk, module: Path) -> None:
        files, whole = self.files(desk), module.read_text()
        self.digest(desk)
        module.unlink()
        with pytest.raises(AgentFileInvalid, match="there is no such module"):
            self.digest(desk)
        assert [item["event"] for item in told(files.look(at_once=False))] == ["removed"]
        module.write_text("def f(:\n")
        with pytest.raises(AgentFileInvalid, match="line 1"):
            self.digest(desk)
        assert [item["event"] for item in told(files.look(at_once=False))] == ["invalid"]
        module.write_text(whole)
        assert [item["event"] for item in told(files.look(at_once=False))] == ["updated"]

    def test_modules_of_no_agent_are_nobodys_business(self, desk: Desk, module: Path) -> None:
        files = self.files(desk)
        module.with_name("other.py").write_text("def f(:\n")
        assert told(files.look(at_once=False)) == []


class TestLoop:
    async def test_it_looks_when_something_happens(self, desk: Desk) -> None:
        heard: list[tuple[str, str]] = []
        following = follow_files(
            desk.agents, desk.parts, desk.parts.use, lambda name, data: heard.append((name, data["event"])), dict
        )
        running = asyncio.create_task(following.loop.run())
        path = desk.folder / "agents/worker.md"
        whole = path.read_text()
        path.write_text(whole[: len(whole) // 2])
        await eventually(lambda: ("agents_changed", "invalid") in heard)
        path.write_text(whole)
        (desk.folder / "config.yaml").write_text("server: {port: 1}\n")
        await eventually(lambda: ("config_changed", "updated") in heard)
        assert following.config.restart == ("server.port",)
        (desk.folder / "agents/deep").mkdir()
        desk.agent("deep", file="deep/deep")
        await eventually(lambda: ("agents_changed", "loaded") in heard)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def test_without_watches_and_with_a_kind_that_fails_the_others_go_on(
        self, desk: Desk, caplog: pytest.LogCaptureFixture
    ) -> None:
        heard: list[str] = []

        class Failing:
            def folders(self) -> list[Path]:
                return [desk.folder / "nowhere"]

            def look(self, *, at_once: bool) -> ChangeReport:
                raise ZeroDivisionError

        def no_watches(
            folders: frozenset[Path], woken: Callable[[], object], failed: Callable[[Exception], object]
        ) -> FolderEvents:
            events = FolderEvents(folders, lambda: None, lambda error: None)
            events.close()
            failed(OSError(errno.ENOSPC, "OS file watch limit reached"))
            return events

        kinds = (Failing(), AgentFiles(desk.agents, desk.settings.agents_dir))
        loop = ReloadLoop(kinds, lambda name, data: heard.append(data["event"]), no_watches)
        running = asyncio.create_task(loop.run())
        desk.agent("other")
        await eventually(lambda: heard == ["loaded"])
        assert "Failing: the files could not be looked at" in caplog.text
        await eventually(lambda: "raise fs.inotify.max_user_watches" in caplog.text)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class TestTrust:
    """Agents that ask for more than was allowed."""

    def test_each_agent_is_told_once_for_what_is_new(self) -> None:
        blocked: dict[str, list[Item]] = {}
        changes = TrustChanges(lambda: blocked)
        tools, server = Item("a", Kind.TOOLS, "kit.py"), Item(None, Kind.SERVER, "port: 1")
        assert not changes.look(at_once=False).announcements
        blocked["a"] = [tools]
        told = ("untrusted", {"agent_name": "a", "items": ["tools: kit.py"]})
        assert changes.look(at_once=False).announcements == [told]
        assert changes.untrusted == {"a": ["tools: kit.py"]}
        assert not changes.look(at_once=False).announcements
        blocked["a"] = [server, tools]
        blocked["b"] = [server]
        assert [data["agent_name"] for _, data in changes.look(at_once=False).announcements] == ["a", "b"]
        blocked.clear()
        assert not changes.look(at_once=False).announcements
        assert changes.untrusted == {}

    def test_a_record_that_cannot_be_read_changes_nothing(self) -> None:
        def unusable() -> dict[str, list[Item]]:
            raise TrustUnusable("cut")

        assert not TrustChanges(unusable).look(at_once=False).announcements
