"""`agentmd chat --url`: a session of a real server, from a terminal or a pipe somewhere else."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import agent_md.cli.remote.remote_chat  # noqa: F401 - so that forks have it
from tests.support.agent_folder import AgentFolder, call
from tests.support.chatting import Piped, on_screen, ready, say
from tests.support.forked_terminal import ForkedTerminal
from tests.support.relay import Relay, relay
from tests.support.server import Server
from tests.support.sessions import Talk, talking_world
from tests.support.structured import DATABASE, FEATURES
from tests.support.world import World

ROOT = Path(__file__).parents[2]
SESSIONS = "/agents/worker/sessions"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return talking_world(tmp_path / "ws")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the sessions of many tests."""
    world = talking_world(
        tmp_path_factory.mktemp("served") / "ws", "server: {allow_custom_ids: true, max_concurrent: 20}"
    )
    with Server(world.workspace) as running:
        yield running


@pytest.fixture
def way(served: Server) -> Iterator[Relay]:
    with relay(Path(served.address["socket"])) as found:
        yield found


@contextmanager
def chat(way: Relay, *args: str, agent: str = "worker") -> Iterator[ForkedTerminal]:
    """A chat on a terminal of its own, in no workspace."""
    words = ["chat", "--url", f"{way.url}/agents/{agent}", *args]
    with ForkedTerminal(words, cwd="/", columns=160) as terminal:
        yield terminal


def leave(terminal: ForkedTerminal) -> None:
    say(terminal, "/exit")
    assert terminal.exit_code() == 0


def conversation_of(way: Relay, served: Server, agent: str = "worker") -> Talk:
    """The session in which the first message was sent by this way."""
    way.until_asked(f"POST /agents/{agent}/sessions/")
    (path, *_) = [asked for asked in way.requests if asked.endswith("/messages")]
    return Talk(served.client, path.split("/")[-2], f"/agents/{agent}")


def times_out(screen: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d", "TT:TT:TT", screen)


class TestOnATerminal:
    def test_a_chat_from_its_first_line_to_its_last(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "Hi")
            say(terminal, "two things")
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("[y/N]: ")
            terminal.send_line("no, not B")
            leave(terminal)
            screen = times_out(on_screen(terminal, 160))
        talk = conversation_of(way, served)
        assert screen == (
            f"▶ Chat with worker  {way.url}/agents/worker\n"
            f"  Session {talk.id}; /help helps, /exit ends\n"
            "\n"
            "you> Hi\n"
            "TT:TT:TT worker ✅ Hello.\n"
            "\n"
            "you> two things\n"
            "TT:TT:TT worker 💬 Both.\n"
            "  y yes · n no · n TEXT no, with this reason · e edit · a always · ? everything\n"
            '? Confirm danger {"key": "A"} [y/N]: y\n'
            "  y yes · n no · n TEXT no, with this reason · e edit · a always · ? everything\n"
            '? Confirm danger {"key": "B"} [y/N]: no, not B\n'
            "\n"
            "TT:TT:TT worker ✅ Both were decided.\n"
            "\n"
            "you> /exit\n"
            f"This session goes on with: agentmd chat --url {way.url}/agents/worker --session {talk.id}\n"
        )
        assert talk.texts()[-3:] == ["did A", "Action denied by user: not B", "Both were decided."]

    def test_a_question_rings_if_the_user_wants_it(self, way: Relay, tmp_path: Path) -> None:
        config = tmp_path / ".config/agentmd/config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text("terminal: {bell: true}\n")
        words = ["chat", "--url", f"{way.url}/agents/worker"]
        with ForkedTerminal(words, cwd="/", env={"HOME": str(tmp_path)}) as terminal:
            say(terminal, "two things")
            assert terminal.expect("[y/N]: ").count("\a") == 1
            terminal.send_line("y")
            assert "\a" not in terminal.expect("[y/N]: ")
            terminal.send_line("n")
            leave(terminal)

    def test_what_is_allowed_from_now_on_is_not_asked_again_in_this_session(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "one thing")
            terminal.expect('{"key": "A"} [y/N]: ')
            terminal.send_line("a")
            assert "  scope  this session\n" in terminal.expect("? Allow this without asking [y/N]: ")
            terminal.send_line("danger(key=*)")
            terminal.expect("? Allow this without asking [y/N]: ")
            terminal.send_line("y")
            terminal.expect("allows more than")  # the server knows it better
            terminal.expect('{"key": "A"} [y/N]: ')
            terminal.send_line("a")
            terminal.expect("? Allow this without asking [y/N]: ")
            terminal.send_line("y")
            terminal.expect("✅ It was decided.")
            say(terminal, "one more")
            terminal.expect("✅ It was decided.")
            leave(terminal)
        assert conversation_of(way, served).texts()[-2:] == ["did A", "It was decided."]

    def test_it_asks_the_server_no_more_than_it_must(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "one thing")
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            say(terminal, "soon")
            conversation_of(way, served).open_gate(served.workspace)
            leave(terminal)
        session = f"{SESSIONS}/{conversation_of(way, served).id}"
        turn = [f"POST {session}/messages", f"GET {session}?wait=true&timeout=30"]
        assert way.requests == [
            f"POST {SESSIONS}",
            *turn,
            f"GET {session}/messages",
            f"GET {session}",
            f"POST {session}/resume",
            f"GET {session}?wait=true&timeout=30",
            *turn,
        ]

    def test_what_a_call_would_do_stands_above_its_question(self, folder: AgentFolder) -> None:
        write = call("file_write", path="notes.txt", content="new\u202e\n")
        folder.agent("writer", [{"text": "I write\nit down.", "calls": [write]}, {"text": "Written."}])
        folder.file("notes.txt", "old\n")
        with (
            Server(folder.path) as served,
            relay(Path(served.address["socket"])) as way,
            chat(way, agent="writer") as terminal,
        ):
            say(terminal, "Write")
            terminal.expect(" writer 💬 I write\n  it down.\n")
            terminal.expect("  ⚠ this request holds control, hidden or reordering characters")
            terminal.expect(f"  → {folder.path}/notes.txt (")
            terminal.expect("\n  -old\n  +new\\u202e\n")
            terminal.expect("[y/N]: ")
            (asked,) = conversation_of(way, served, "writer").get().body["interrupts"]
            assert set(asked["payload"]) == {"type", "tool_name", "tool_args"}
            assert asked["preview"]["resolved"] == f"{folder.path}/notes.txt"
            terminal.send_line("y")
            terminal.expect("✅ Written.")
            leave(terminal)
            assert terminal.screen.count("I write") == 1
            assert terminal.screen.count("Written.") == 1

    def test_structured_questions_and_a_text_of_ones_own(self, folder: AgentFolder) -> None:
        folder.agent(
            "asker", [{"calls": [call("ask_user_question", questions=[DATABASE, FEATURES])]}, {"text": "Done."}]
        )
        with (
            Server(folder.path) as served,
            relay(Path(served.address["socket"])) as way,
            chat(way, agent="asker") as terminal,
        ):
            say(terminal, "Ask")
            terminal.expect("? Which database?  [Database]  (1/2)\n  1. SQLite\n     One file\n     │ app.db\n")
            terminal.expect("Choice: ")
            terminal.send_line("3")
            terminal.expect("Other: ")
            terminal.send_line("my own")
            terminal.expect("? Which features?  [Features]  (2/2)\n")
            terminal.expect("Choice: ")
            terminal.send_line("1,3")
            terminal.expect("✅ Done.")
            leave(terminal)
        answers = {"Which database?": "my own", "Which features?": ["Search", "Über"]}
        assert json.loads(folder.results()[0]) == answers

    def test_what_the_server_refuses_is_said_and_asked_again(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "question")
            terminal.expect("? Name for Q?  [Input]\n> ")
            terminal.send_line("Ann")
            terminal.expect("? Colour?  [Choice]\n  1. red\n  2. blue\n  3. Other\n")
            terminal.expect("Choice: ")
            terminal.send_line("3")
            terminal.expect("Other: ")
            terminal.send_line("green")
            terminal.expect("  'green' is not an option; the options are: red, blue\n? Colour?")
            terminal.expect("Choice: ")
            terminal.send_line("2")
            terminal.expect("✅ Thanks.")
            leave(terminal)
        assert "Ann blue" in conversation_of(way, served).texts()

    def test_everything_is_shown_and_arguments_are_edited(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "one thing")
            terminal.expect("[y/N]: ")
            terminal.send_line("?")
            terminal.expect("  asked by: confirm: danger\n  digest: ")
            terminal.expect("  user:\n    one thing\n  assistant:\n    One.\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("e")
            terminal.expect("  key: A")
            terminal.send("B\r")
            terminal.expect("edited: `y` approves the call with these arguments\n")
            terminal.expect('? Confirm danger {"key": "AB"} [y/N]: ')
            terminal.send_line("y")
            terminal.expect("✅ It was decided.")
            leave(terminal)
        said = conversation_of(way, served).texts()
        assert "The user edited the arguments of this call before approving it. did AB" in said

    def test_an_interrupt_of_a_type_that_nobody_knows(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "place")
            terminal.expect('  {\n    "type": "map",\n    "centre": [\n')
            terminal.expect("? map request\n  a JSON value · e edit · ? everything\nJSON: ")
            terminal.send_line("there")
            terminal.expect("  not JSON: a value was expected at character 1; write it such as")
            terminal.expect("JSON: ")
            terminal.send_line('{"at": "home"}')
            terminal.expect("  at: 'home' is not of type 'number'\n")
            terminal.expect("JSON: ")
            terminal.send_line('{"at": 1}')
            terminal.expect("✅ There.")
            leave(terminal)
        assert '{"at": 1}' in conversation_of(way, served).texts()

    def test_turns_that_fail_are_shown_and_the_chat_goes_on(self, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "fails at once")
            terminal.expect("❌ script/worker could not answer")
            say(terminal, "Hi")
            terminal.expect("✅ Hello.")
            leave(terminal)

    def test_that_the_server_works_is_seen(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "slow")
            terminal.expect("worker · working…")
            terminal.send("\x03")
            assert terminal.exit_code() == 130
            assert "working" not in on_screen(terminal, 160)
        conversation_of(way, served).delete()


class TestAnsweredElsewhere:
    @pytest.mark.parametrize("approved", [True, False])
    def test_the_prompt_is_withdrawn(self, served: Server, way: Relay, *, approved: bool) -> None:
        with chat(way) as terminal:
            say(terminal, "one thing")
            terminal.expect("[y/N]: ")
            talk = conversation_of(way, served)
            (interrupt,) = talk.get().body["interrupts"]
            assert talk.resume(interrupt, {"approved": approved}).status == 200
            terminal.expect("Withdrawn: it was answered elsewhere, expired or was cancelled\n")
            terminal.expect("✅ It was decided.")
            leave(terminal)

    def test_the_next_question_is_asked(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "two")
            terminal.expect('{"key": "A"} [y/N]: ')
            talk = conversation_of(way, served)
            first, _ = talk.get().body["interrupts"]
            talk.resume(first, {"approved": False})
            terminal.expect('{"key": "B"} [y/N]: ')
            terminal.send_line("y")
            terminal.expect("✅ Both were decided.")
            leave(terminal)
        assert talk.texts()[-3:-1] == ["Action denied by user", "did B"]

    def test_the_second_prompt_was_answered_while_the_first_stood_open(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "two")
            terminal.expect('{"key": "A"} [y/N]: ')
            talk = conversation_of(way, served)
            _, second = talk.get().body["interrupts"]
            talk.resume(second, {"approved": True})
            terminal.send_line("y")
            terminal.expect("✅ Both were decided.")
            leave(terminal)
            assert terminal.screen.count("[y/N]") == 1

    def test_the_session_is_deleted_at_a_prompt(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "one")
            terminal.expect("[y/N]: ")
            assert conversation_of(way, served).delete().status == 204
            terminal.expect("or it was deleted")
            assert terminal.exit_code() == 2
            assert "goes on with" not in terminal.screen

    def test_the_session_is_deleted_in_a_turn(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "slow")
            talk = conversation_of(way, served)
            talk.until_driven()
            talk.delete()
            terminal.expect("or it was deleted")
            assert terminal.exit_code() == 2

    def test_the_session_is_deleted_between_two_turns(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "Hi")
            ready(terminal)
            conversation_of(way, served).delete()
            terminal.send_line("More")
            terminal.expect("or it was deleted. Your message was not sent")
            assert terminal.exit_code() == 2

    def test_another_client_was_faster_with_a_message(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "Hi")
            ready(terminal)
            talk = conversation_of(way, served)
            assert talk.say("one").status == 202
            terminal.send_line("Me too")
            terminal.expect("The session is busy: ")
            terminal.expect("Your message is sent after that turn.\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("✅ It was decided.")
            terminal.expect("✅ Hello.")
            leave(terminal)
        said = [message["content"] for message in talk.messages() if message["role"] == "user"]
        assert said == ["Hi", "one", "Me too"]


class TestConnections:
    def test_the_server_is_killed_and_comes_again_in_the_middle_of_a_turn(self, world: World) -> None:
        served = Server(world.workspace)
        with relay(Path(served.address["socket"])) as way, chat(way) as terminal:
            say(terminal, "one")
            terminal.expect("[y/N]: ")
            served.kill()
            terminal.send_line("y")
            terminal.expect("no answer from http://127.0.0.1:")
            terminal.expect("; trying again for 5 min\n")
            with Server(world.workspace) as again:
                terminal.expect("the server answers again\n")
                terminal.expect("✅ It was decided.")
                leave(terminal)
                assert "did A" in conversation_of(way, again).texts()
            assert terminal.screen.count("trying again") == 1

    def test_the_server_is_killed_while_the_model_works(self, world: World) -> None:
        served = Server(world.workspace)
        with relay(Path(served.address["socket"])) as way, chat(way) as terminal:
            say(terminal, "slow")
            conversation_of(way, served).until_driven()
            served.kill()
            terminal.expect("trying again")
            script = world.workspace / "agents/_config/scripts/worker.yaml"
            script.write_text(script.read_text().replace("delay: 60s, ", ""))
            with Server(world.workspace):
                terminal.expect("✅ Late.")
                leave(terminal)

    def test_a_proxy_that_cuts_what_takes_long_is_not_worth_a_word(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "slow")
            talk = conversation_of(way, served)
            poll = f"GET {SESSIONS}/{talk.id}"
            way.until_asked(f"{poll}?wait=true")
            way.cut()
            way.until_asked(f"{poll}?wait=true", times=2)
            terminal.send("\x03")
            assert terminal.exit_code() == 130
            assert "answer" not in terminal.screen
        assert [asked for asked in way.requests if asked.startswith("GET")] == [
            f"{poll}?wait=true&timeout=30",
            poll,
            f"{poll}?wait=true&timeout=30",
        ]
        talk.delete()


class TestLeaving:
    @pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 3)])
    def test_a_question_stays_open_and_another_chat_asks_it(
        self, served: Server, way: Relay, key: str, code: int
    ) -> None:
        with chat(way) as terminal:
            say(terminal, "one")
            terminal.expect("[y/N]: ")
            talk = conversation_of(way, served)
            terminal.send(key)
            terminal.expect(f"session {talk.id} waits for an answer\n")
            terminal.expect(
                f"This session goes on with: agentmd chat --url {way.url}/agents/worker --session {talk.id}"
            )
            assert terminal.exit_code() == code
        assert talk.get().body["status"] == "interrupted"
        with chat(way, "--session", talk.id) as terminal:
            terminal.expect("  It goes on after 1 turn:\n  👤 one\n\n")
            terminal.expect("A turn of this session has not ended; that comes first.\n")
            terminal.expect(" worker 💬 One.\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("✅ It was decided.")
            leave(terminal)

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
    def test_a_turn_goes_on(self, served: Server, way: Relay, number: signal.Signals, code: int) -> None:
        with chat(way) as terminal:
            say(terminal, "slow")
            talk = conversation_of(way, served)
            way.until_asked(f"GET {SESSIONS}/{talk.id}")
            terminal.signal(number)
            terminal.expect(f"session {talk.id}: the turn goes on without this terminal\n")
            assert terminal.exit_code() == code
        assert talk.get().body["status"] == "running"
        talk.delete()

    def test_a_session_in_which_nothing_was_said_is_not_left_behind(self, served: Server, way: Relay) -> None:
        with chat(way) as terminal:
            say(terminal, "/help")
            terminal.expect("a turn goes on at the server")
            ready(terminal)
            terminal.send("\x04")
            assert terminal.exit_code() == 0
        asked = way.requests
        assert [asked[0], asked[1].partition(" ")[0]] == [f"POST {SESSIONS}", "DELETE"]
        assert served.client.get(asked[1].removeprefix("DELETE ")).status == 404

    def test_a_server_without_an_agent_that_is_the_usual_one(self, served: Server, way: Relay, tmp_path: Path) -> None:
        ended = AgentFolder(tmp_path / "none").cli("chat", "--url", way.url)
        assert (ended.code, ended.out) == (2, "")
        assert f"; name the agent: agentmd chat NAME --url {way.url}\n" in ended.err

    def test_an_id_that_is_given(self, served: Server, way: Relay) -> None:
        mine = str(uuid.uuid4())
        with chat(way, "--session", mine) as terminal:
            say(terminal, "Hi")
            terminal.expect("✅ Hello.")
            leave(terminal)
        assert Talk(served.client, mine).texts()[-1] == "Hello."
        with chat(way, "--session", "tuesday") as terminal:
            terminal.expect("there is no session tuesday at ")
            terminal.expect("the id of a session that a client chooses is a UUID")
            assert terminal.exit_code() == 2


class TestKeys:
    @pytest.fixture
    def url(self, world: World) -> Iterator[str]:
        with Server(world.workspace, "--port", "0", env={"AGENTMD_API_KEY": "secret"}) as served:
            yield served.address["url"]

    def test_a_key_is_asked_for_and_not_shown(self, url: str) -> None:
        with ForkedTerminal(["chat", "worker", "--url", url], cwd="/") as terminal:
            terminal.expect(f"The key of {url}/agents/worker: ")
            terminal.send_line("secret")
            say(terminal, "Hi")
            terminal.expect("✅ Hello.")
            leave(terminal)
            assert "secret" not in terminal.screen

    def test_a_key_in_the_environment(self, url: str) -> None:
        with ForkedTerminal(["chat", "worker", "--url", url], cwd="/", env={"AGENTMD_API_KEY": "secret"}) as terminal:
            say(terminal, "Hi")
            terminal.expect("✅ Hello.")
            leave(terminal)

    @pytest.mark.parametrize("options", [(), ("--api-key", "wrong")])
    def test_a_key_that_is_missing_or_wrong(self, world: World, url: str, options: tuple[str, ...]) -> None:
        ended = world.cli("chat", "worker", "--url", url, *options)
        assert (ended.code, ended.out) == (2, "")
        assert "wants a key" in ended.err
        assert "AGENTMD_API_KEY" in ended.err


class TestPiped:
    def test_messages_are_lines_and_answers_lines_of_output(self, folder: AgentFolder) -> None:
        folder.agent("bot", [{"text": "Hello."}])
        with Server(folder.path) as served, relay(Path(served.address["socket"])) as way:
            ended = Piped(folder, "bot", "--url", way.url).end("Hi\n\nHi again\n")
            talk = conversation_of(way, served, "bot")
        assert (ended.code, times_out(ended.out)) == (0, "TT:TT:TT bot ✅ Hello.\n" * 2)
        assert f"agentmd chat --url {way.url}/agents/bot --session {talk.id}\n" in ended.err

    def test_a_turn_that_fails_last(self, served: Server, way: Relay, tmp_path: Path) -> None:
        chatting = Piped(AgentFolder(tmp_path / "none"), "worker", "--url", way.url)
        ended = chatting.end("Hi\nfails at once\n")
        assert ended.code == 1

    def test_a_question_ends_it_unanswered(self, served: Server, way: Relay, tmp_path: Path) -> None:
        ended = Piped(AgentFolder(tmp_path / "none"), "worker", "--url", way.url).end("two\ny\n")
        talk = conversation_of(way, served)
        assert (ended.code, ended.out) == (3, "")
        assert '? Confirm danger {"key": "A"}\n? Confirm danger {"key": "B"}\n' in ended.err
        waits = f"session {talk.id} waits for an answer\nWhat follows on standard input was not sent.\n"
        assert waits in ended.err
        assert len(talk.get().body["interrupts"]) == 2

    def test_nothing_more_is_sent_when_nobody_gets_the_answers(self, folder: AgentFolder) -> None:
        folder.agent("bot", [{"text": "Hello."}])
        with Server(folder.path) as served, relay(Path(served.address["socket"])) as way:
            program = [sys.executable, "-m", "agent_md.cli.main", "chat", "bot", "--url", way.url]
            env = {"PATH": os.environ["PATH"], "HOME": str(folder.path), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
            with Path("/dev/full").open("w") as full:
                ended = subprocess.run(
                    program, input="Hi\n" * 50, env=env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30
                )
            turns = served.client.get("/executions").body
        assert ended.returncode == 0
        assert "Nobody gets the answers any more; no further message is sent.\n" in ended.stderr
        assert len(turns) == 1
