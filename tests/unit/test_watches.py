"""The watches of a server, with a clock of the test: what changes in files becomes one firing, and starts or says why not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_md.agents.defaults import Defaults
from agent_md.agents.registry import Registry, scan
from agent_md.executions.execution import Execution, NewExecution
from agent_md.executions.firings import Firing, FiringState, NewFiring
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import CallEffect
from agent_md.executions.states import Status, TriggerKind
from agent_md.tools.forbidden import Forbidden
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.pinned_path import ABSENT, digest_of_bytes
from agent_md.triggers.start_or_skip import MOST_A_MINUTE, FiringStarter
from agent_md.triggers.watches import MOST_HOPS, AgentWatch, WatchLook
from tests.support.clock import ManualClock
from tests.support.memory_store import MemoryStore
from tests.support.scenes import FIRST, SPEC, W1, ask, deny, finish_call, human, proposal, record, succeed
from tests.support.workers import FakeWorkers

HEAD = "Files that you watch were changed:\n"


class Server:
    """One server process on a workspace; `again` is the next one on the same store."""

    def __init__(self, folder: Path, store: MemoryStore, clock: Any) -> None:
        self.folder, self.store, self.clock = folder, store, clock
        self.told: list[Firing] = []
        self.starter = FiringStarter(store, self.registry, self.start, self.told.append, clock)
        self.watches: dict[str, AgentWatch] = {}

    def registry(self) -> Registry:
        return scan(self.folder / "agents", self.folder, Defaults())

    def start(self, firing: Firing) -> Execution:
        spec = self.registry().get(firing.agent).spec
        return self.store.create(
            NewExecution(spec.name, firing.trigger, (human(firing.message or ""),)),
            spec=SPEC,
            spec_digest="d",
            skip_if_waiting=spec.on_pending == "skip",
            worker=None,
            firing=firing.id,
        )

    def again(self) -> Server:
        following = Server(self.folder, self.store, self.clock)
        for name in self.watches:
            following.watch(name).begin()
        return following

    def agent(self, trigger: str = "paths: [in/*.txt]", *more: str, name: str = "keeper") -> AgentWatch:
        lines = "\n".join(["---", f"trigger: {{type: watch, {trigger}}}", *more, "---", "Work.", ""])
        (self.folder / f"agents/{name}.md").write_text(lines)
        watch = self.watch(name)
        watch.begin()
        watch.look()
        return watch

    def watch(self, name: str = "keeper") -> AgentWatch:
        spec = self.registry().get(name).spec
        forbidden = Forbidden(self.folder / "agents", folders=(self.folder / ".agentmd",))
        sandbox = Sandbox(self.folder, spec.paths, forbidden)
        self.watches[name] = AgentWatch(spec, sandbox, self.store.firings, clock=self.clock, ticks=self.clock)
        return self.watches[name]

    def file(self, name: str, text: str | None = "text") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink() if text is None else path.write_text(text)
        return path

    def pass_time(self, seconds: float = 2.0) -> None:
        for _ in range(int(seconds)):
            self.look()
            self.clock.advance(1.0)
        self.look()

    def look(self) -> list[WatchLook]:
        return [watch.look() for watch in self.watches.values()]

    def firings(self, *states: FiringState) -> list[str]:
        return [(f.message or "").removeprefix(HEAD) for f in self.store.firings.listed(states=states)][::-1]

    def end_all(self, writes: Sequence[tuple[Path, str]] = ()) -> None:
        """Ends what is queued; each writes files before, by a tool that notes it."""
        for execution in self.store.executions(statuses=(Status.QUEUED,)):
            self.drive(execution, writes)

    def work(self) -> list[Execution]:
        """Starts what is due, and ends it."""
        started = self.starter.start_due()
        self.end_all()
        return started

    def drive(self, execution: Execution, writes: Sequence[tuple[Path, str]] = ()) -> None:
        claim = self.store.claim(execution.id, W1)
        assert claim is not None
        journal = self.store.journal(claim)
        if writes:
            after = json.dumps([[str(path), digest_of_bytes(text.encode())] for path, text in writes])
            record(journal, 0, [proposal()])
            journal.start_call(FIRST, {}, CallEffect("", after))
        for path, text in writes:
            path.write_text(text)
        succeed(journal)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(tmp_path: Path, clock: ManualClock) -> Server:
    (tmp_path / "agents").mkdir()
    (tmp_path / "in").mkdir()
    return Server(tmp_path, MemoryStore(workers=FakeWorkers(W1), clock=clock), clock)


def test_what_is_there_at_the_beginning_is_not_told_and_what_changes_is(server: Server) -> None:
    server.file("in/old.txt")
    server.agent()
    server.pass_time()
    assert server.firings() == []
    server.file("in/new.txt")
    server.file("in/new.pdf")
    server.file("in/deeper/new.txt")
    server.file("in/old.txt", "other")
    server.pass_time()
    assert server.firings() == ["created in/new.txt\nmodified in/old.txt"]
    server.pass_time(70)
    assert len(server.firings()) == 1


def test_metadata_alone_is_no_change(server: Server) -> None:
    path = server.file("in/a.txt")
    server.agent()
    server.pass_time()
    path.chmod(0o600)
    os.utime(path, (1, 1))
    path.write_text(path.read_text())
    server.pass_time(3)
    assert server.firings() == []
    assert server.store.firings.watched_files("keeper")["in/a.txt"].digest == digest_of_bytes(b"text")


def test_a_move_within_is_told_as_one_and_out_of_it_as_a_deletion(server: Server) -> None:
    server.file("in/a.txt", "one")
    server.file("in/b.txt", "two")
    server.agent()
    server.pass_time()
    (server.folder / "in/a.txt").rename(server.folder / "in/c.txt")
    (server.folder / "in/b.txt").rename(server.folder / "b.txt")
    server.pass_time()
    assert server.firings() == ["deleted in/b.txt\nmoved in/a.txt -> in/c.txt"]


def test_a_file_that_grows_is_handed_over_when_it_is_complete_or_after_a_minute(server: Server) -> None:
    server.agent()
    for size in range(5):
        server.file("in/slow.txt", "x" * (size + 1))
        server.look()
        server.clock.advance(0.9)
        assert server.firings() == []
    server.pass_time(1)
    assert server.firings() == ["created in/slow.txt"]
    server.work()
    for size in range(70):
        server.file("in/slow.txt", "y" * (size + 1))
        server.look()
        server.clock.advance(0.9)
    assert server.firings() == ["created in/slow.txt", "modified in/slow.txt"]


@pytest.mark.parametrize(("catch_up", "told"), [("once", 1), ("all", 1), ("skip", 0)])
def test_what_changed_while_no_server_ran_is_told_as_the_agent_wants(server: Server, catch_up: str, told: int) -> None:
    server.file("in/a.txt")
    server.agent(f"paths: [in], catch_up: {catch_up}")
    server.pass_time()
    server.file("in/a.txt", "changed")
    server.file("in/b.txt")
    following = server.again()
    following.pass_time()
    assert following.firings() == ["modified in/a.txt\ncreated in/b.txt"] * told
    following.work()
    following.file("in/c.txt")
    following.pass_time()
    assert following.firings()[told:] == ["created in/c.txt"]


def test_what_was_cut_off_in_the_middle_is_told_by_the_next_server(server: Server) -> None:
    server.agent()
    server.file("in/a.txt")
    server.look()
    following = server.again()
    following.pass_time()
    assert following.firings() == ["created in/a.txt"]
    last = following.again()  # the firing is stored, and its process died before it was started
    last.pass_time()
    assert [execution.trigger for execution in last.starter.start_due()] == [TriggerKind.WATCH]
    assert last.starter.start_due() == []
    assert len(last.firings()) == 1


def test_ignored_and_temporary_files_and_those_that_no_tool_may_touch_are_passed_by(server: Server) -> None:
    server.agent('paths: ["**/*", "**/.*", .git, .agentmd, agents], ignore: ["*.tmp", drafts, "in/x*/deep"]')
    temporary = ["in/a~", "in/.a.txt.swp", "in/4913", "in/.#a", ".git/index", "in/#a#", "in/.agentmd-1.tmp"]
    forbidden = [".agentmd/agentmd.db", "agents/_config/tools/t.py", "agents/other.md", ".env"]
    ignored = ["in/a.tmp", "drafts/a", "in/drafts/b/c", "in/xy/deep/a"]
    for name in (*temporary, *forbidden, *ignored, "in/xy/a"):
        server.file(name)
    server.pass_time()
    assert server.firings() == ["created in/xy/a"]


def test_links_are_not_followed_out_and_globs_that_lead_out_are_said(server: Server, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (server.folder / "linked").symlink_to(outside)
    (server.folder / "in/link.txt").symlink_to(outside / "a.txt")
    server.agent(f'paths: ["in/*", "**/*.txt", "linked/*", "../x/*", "{outside}/*"]')
    (outside / "a.txt").write_text("secret")
    server.pass_time()
    assert server.firings() == []
    (looked,) = server.look()
    assert looked.problem is not None
    assert f"linked/*, ../x/*, {outside}/* leads out of what the agent may reach" in looked.problem


@pytest.mark.parametrize(
    "pattern", ["inbox/*.txt", "{inbox}/*.txt", "data/in/*.txt", "./data/in", "WORKSPACE/data/in/*"]
)
def test_declared_paths_are_watched_under_the_names_that_the_agent_knows(server: Server, pattern: str) -> None:
    pattern = pattern.replace("WORKSPACE", str(server.folder))
    server.agent(f'paths: ["{pattern}"]', "paths: {inbox: data/in}")
    assert [looked.missing for looked in server.look()] == [True]
    server.file("data/in/a.txt")
    server.file("inbox/b.txt")
    server.pass_time()
    assert server.firings() == ["created inbox/a.txt"]
    assert [looked.missing for looked in server.look()] == [False]


def test_a_folder_that_comes_later_goes_and_comes_again(server: Server) -> None:
    server.agent("paths: [later/sub/*.txt]")
    server.file("later/sub/a.txt")
    server.pass_time()
    (server.folder / "later").rename(server.folder / "gone")
    server.work()
    server.pass_time()
    server.work()
    (server.folder / "gone").rename(server.folder / "later")
    server.pass_time()
    assert server.firings() == ["created later/sub/a.txt", "deleted later/sub/a.txt", "created later/sub/a.txt"]


def test_other_globs_begin_anew_and_nothing_else_does(server: Server) -> None:
    server.file("in/a.pdf")
    server.agent()
    server.pass_time()
    server.file("in/a.txt")
    server.agent("paths: [in/*.txt], debounce: 2s", "description: Changed")
    server.pass_time(3)
    server.agent("paths: [in/*]")
    server.pass_time()
    assert server.firings() == ["created in/a.txt"]


def test_own_writes_are_never_told_and_those_of_others_are(server: Server) -> None:
    server.agent()
    server.file("in/a.txt")
    server.pass_time()
    (execution,) = server.starter.start_due()
    server.drive(execution, [(server.folder / "in/out.txt", "mine"), (server.folder / "in/a.txt", "mine too")])
    server.pass_time()
    assert server.firings() == ["created in/a.txt"]
    server.file("in/out.txt", "of a human")
    server.pass_time()
    assert server.firings()[1:] == ["modified in/out.txt"]


def test_writes_of_an_execution_that_it_called_are_its_own(server: Server) -> None:
    server.agent()
    parent = server.store.create(
        NewExecution("keeper", TriggerKind.MANUAL, (human("Go"),)),
        spec=SPEC,
        spec_digest="d",
        skip_if_waiting=False,
        worker=W1,
    )
    child = server.store.create(
        NewExecution("helper", TriggerKind.AGENT, (human("Go"),), parent_id=ExecutionId(parent.id)),
        spec=SPEC,
        spec_digest="d",
        skip_if_waiting=False,
        worker=None,
    )
    server.drive(child, [(server.folder / "in/out.txt", "mine")])
    server.pass_time()
    assert server.firings() == []


def test_own_deletions_are_not_told(server: Server) -> None:
    path = server.file("in/a.txt")
    server.agent()
    server.pass_time()
    execution = server.start(server.store.firings.add(fired()))
    claim = server.store.claim(execution.id, W1)
    assert claim is not None
    journal = server.store.journal(claim)
    record(journal, 0, [proposal()])
    journal.start_call(FIRST, {}, CallEffect("", json.dumps([[str(path), ABSENT]])))
    path.unlink()
    server.pass_time()
    assert len(server.firings()) == 1


def fired(agent: str = "keeper", hop: int = 0) -> NewFiring:
    return NewFiring(agent=agent, trigger=TriggerKind.WATCH, key=agent, due_at=0.0, message="before", hop=hop)


def test_agents_that_feed_each_other_stop_at_the_hop_limit(server: Server) -> None:
    server.agent("paths: [ping/*]", name="ping")
    server.agent("paths: [pong/*]", name="pong")
    server.file("ping/begin", "0")
    for number in range(20):
        server.pass_time()
        for execution in server.starter.start_due():
            other = "pong" if execution.agent == "ping" else "ping"
            server.file(f"{other}/x", "")
            server.drive(execution, [(server.folder / other / "x", "x" * number)])
    found = server.store.firings.listed()[::-1]
    assert [firing.hop for firing in found] == [0, 1, 2, 3, 4, 5, 6]
    assert len(server.store.executions()) == MOST_HOPS + 1
    assert [(firing.reason or "").split(":")[0] for firing in server.told] == ["hop limit"]


def test_what_a_human_changes_meanwhile_is_told_apart_from_what_is_beyond_the_hop_limit(server: Server) -> None:
    server.agent()
    server.agent("paths: [other/*]", name="other")
    execution = server.start(server.store.firings.add(fired("other", MOST_HOPS)))
    server.file("in/human.txt")
    server.drive(execution, [(server.folder / "in/looped.txt", "looped")])
    server.pass_time()
    assert len(server.starter.start_due()) == 1
    assert server.firings(FiringState.STARTED)[1:] == ["created in/human.txt"]
    assert server.firings(FiringState.SKIPPED) == ["created in/looped.txt"]


@pytest.mark.parametrize(("tool", "executions"), [("publish", MOST_HOPS + 1), ("file_read", 8)])
def test_what_is_touched_while_a_custom_tool_runs_counts_as_a_hop(tmp_path: Path, tool: str, executions: int) -> None:
    """A read by a built-in tool is no reason to take what a human saves for its work."""
    (tmp_path / "agents").mkdir()
    server = Server(tmp_path, MemoryStore(workers=FakeWorkers(W1), clock=time.time), time.time)
    server.agent("paths: [in/*], debounce: 0s")
    server.file("in/begin")
    for number in range(8):
        server.look()
        for execution in server.starter.start_due():
            claim = server.store.claim(execution.id, W1)
            assert claim is not None
            journal = server.store.journal(claim)
            record(journal, 0, [proposal(tool=tool)])
            journal.start_call(FIRST, {}, None)
            server.file("in/out", "x" * number)
            finish_call(journal)
            succeed(journal)
    assert len(server.store.executions()) == executions


def test_no_more_than_twenty_a_minute_are_started(server: Server) -> None:
    server.agent("paths: [in/*], debounce: 0s")
    for number in range(MOST_A_MINUTE + 5):
        server.file("in/a.txt", "x" * number)
        server.look()
        server.work()
        server.clock.advance(1.0)
    assert len(server.store.executions()) == MOST_A_MINUTE
    assert {(firing.reason or "").split(":")[0] for firing in server.told} == {"rate limit"}
    server.clock.advance(60)
    server.file("in/a.txt", "later")
    server.look()
    assert len(server.starter.start_due()) == 1


def test_a_change_set_outlives_a_question_and_what_follows_joins_up(server: Server) -> None:
    server.agent()
    server.file("in/a.txt")
    server.pass_time()
    (execution,) = server.starter.start_due()
    claim = server.store.claim(execution.id, W1)
    assert claim is not None
    journal = server.store.journal(claim)
    (question,) = ask(journal)
    assert journal.park([frozenset([question])])
    for name in "bcd":
        server.file(f"in/{name}.txt", name)
        server.pass_time()
        assert server.starter.start_due() == []
    assert server.firings(FiringState.DUE) == ["created in/b.txt"]
    claim = server.store.record_answers([deny(question)], by="ann", claim_for=W1).claim
    assert claim is not None
    succeed(server.store.journal(claim))
    assert len(server.work()) == 1
    server.pass_time()
    assert server.firings(FiringState.DUE) == ["created in/c.txt\ncreated in/d.txt"]


def test_executions_that_wait_pile_up_if_the_agent_wants_it(server: Server) -> None:
    server.agent("paths: [in/*.txt]", "on_pending: parallel")
    for name in "abc":
        server.file(f"in/{name}.txt", name)
        server.pass_time()
        (execution,) = server.starter.start_due()
        claim = server.store.claim(execution.id, W1)
        assert claim is not None
        journal = server.store.journal(claim)
        assert journal.park([frozenset(ask(journal))])
    assert len(server.store.executions(statuses=(Status.WAITING,))) == 3


def test_a_pause_holds_a_change_set_and_a_disabled_agent_skips_it(server: Server) -> None:
    server.agent()
    server.agent("paths: [in/*.txt]", "enabled: false", name="idle")
    server.store.firings.pause("keeper", "cli:ann")
    server.file("in/a.txt")
    server.pass_time()
    assert server.starter.start_due() == []
    assert [firing.reason for firing in server.told] == ["disabled in agents/idle.md"]
    server.store.firings.resume("keeper")
    assert len(server.starter.start_due()) == 1


def test_of_two_servers_that_look_at_once_one_tells(server: Server) -> None:
    server.agent()
    other = server.again()
    server.file("in/a.txt")
    for _ in range(4):
        server.look()
        other.look()
        server.clock.advance(1.0)
    assert server.firings() == ["created in/a.txt"]
