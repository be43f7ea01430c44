"""`agentmd chat --url` with servers that are not ours: some say less, some more, some lie, some are none at all."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import agent_md.cli.remote.remote_chat  # noqa: F401 - so that forks have it
from tests.support.agent_folder import AgentFolder
from tests.support.chatting import Piped, on_screen, ready, say
from tests.support.foreign_sessions import CLOSE, ForeignServer, Reply, foreign_server
from tests.support.forked_terminal import ForkedTerminal
from tests.support.hostile import HOSTILE, assert_literal, assert_shown
from tests.support.processes import Cli
from tests.support.receiver import receiver

pytestmark = pytest.mark.stress  # slow, and about what seldom changes

CERTIFICATE = Path(__file__).parents[1] / "fixtures/hooks-lan.pem"
ID = "not-a-uuid/é"
SESSION = "/sessions/not-a-uuid%2F%C3%A9"
MESSAGES, RESUME = f"POST {SESSION}/messages", f"POST {SESSION}/resume"


@pytest.fixture
def server() -> Iterator[ForeignServer]:
    """One that makes sessions, and takes messages and answers."""
    with foreign_server() as found:
        found.replies["POST /sessions"] = [state("idle")]
        found.replies[MESSAGES] = [Reply({"session_id": ID, "status": "running"}, 202)]
        found.replies[RESUME] = [Reply({"session_id": ID, "status": "running"})]
        found.replies[f"DELETE {SESSION}"] = [Reply(b"", 204)]
        yield found


def state(status: str, **more: Any) -> Reply:
    return Reply({"session_id": ID, "status": status, **more})


def said(text: str) -> Reply:
    return state("idle", response={"role": "assistant", "content": text, "extra": [1]}, version=7)


def asks(*interrupts: dict[str, Any]) -> Reply:
    return state("interrupted", interrupts=list(interrupts))


def approval(interrupt_id: Any = "i-1", **more: Any) -> dict[str, Any]:
    payload = {"type": "tool_approval", "tool_name": "rm", "tool_args": {"path": "a"}, **more}
    return {"interrupt_id": interrupt_id, "type": "tool_approval", "payload": payload}


@contextmanager
def chat(server: ForeignServer, *states: Reply) -> Iterator[ForkedTerminal]:
    """A chat in which one message is sent; `states` are what the session is then."""
    server.replies[f"GET {SESSION}"] = list(states)
    with ForkedTerminal(["chat", "--url", server.url], cwd="/", columns=120) as terminal:
        say(terminal, "Hi")
        yield terminal


def leave(terminal: ForkedTerminal) -> None:
    say(terminal, "/exit")
    assert terminal.exit_code() == 0


def gaps(server: ForeignServer) -> list[float]:
    """Seconds between the looks at the session."""
    return [later - earlier for earlier, later in itertools.pairwise(server.times(f"GET {SESSION}"))]


def assert_at_least(found: Sequence[float], wanted: Sequence[float]) -> None:
    assert len(found) >= len(wanted)
    assert all(seconds >= least - 0.01 for seconds, least in zip(found, wanted, strict=False)), found


class TestNeverSpins:
    def test_where_the_server_does_not_wait(self, server: ForeignServer) -> None:
        with chat(server, state("running"), state("running"), said("Hello.")) as terminal:
            terminal.expect("✅ Hello.")
            leave(terminal)
        assert_at_least(gaps(server), [0.2, 0.5])

    def test_where_an_answered_question_stays_in_the_list(self, server: ForeignServer) -> None:
        with chat(server, asks(approval()), asks(approval()), asks(approval()), said("Done.")) as terminal:
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("✅ Done.")
            leave(terminal)
            assert terminal.screen.count("[y/N]") == 1
        assert server.bodies(RESUME) == [{"interrupt_id": "i-1", "value": {"approved": True}}]
        assert_at_least(gaps(server)[1:], [0.2, 0.5])

    def test_a_server_that_does_not_say_so_is_sent_no_edited_arguments(self, server: ForeignServer) -> None:
        with chat(server, *[asks(approval())] * 99) as terminal:
            terminal.expect("  y yes · n no · n TEXT no, with this reason · ? everything\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("e")
            terminal.expect("answer y or n; `n REASON` tells the agent why")
            terminal.expect("[y/N]: ")
            terminal.send_line("?")
            terminal.expect("  asked by: the server does not say by what\n")
            terminal.expect("[y/N]: ")
            terminal.send("\x04")
            assert terminal.exit_code() == 3
        assert server.bodies(RESUME) == []

    def test_where_nothing_is_asked_of_an_interrupted_session(self, server: ForeignServer) -> None:
        with chat(server, state("interrupted"), state("interrupted", interrupts=[]), said("Done.")) as terminal:
            terminal.expect("✅ Done.")
            leave(terminal)
        assert_at_least(gaps(server), [0.2, 0.5])

    def test_while_a_question_stands_open(self, server: ForeignServer) -> None:
        with chat(server, asks(approval()), asks(approval()), Reply({}, 500), said("Done.")) as terminal:
            terminal.expect("[y/N]: ")
            terminal.expect("Withdrawn: ")
            terminal.expect("✅ Done.")
            leave(terminal)
        assert_at_least(gaps(server), [0.5, 1.0, 1.0])

    def test_where_every_message_is_refused_as_busy(self, server: ForeignServer) -> None:
        server.replies[MESSAGES] = [Reply({"detail": "a turn is running"}, 409)]
        with chat(server, said("Before.")) as terminal:
            terminal.expect("a turn is running\n")
            terminal.expect("Your message was not sent.")
            leave(terminal)
            assert "Before." not in terminal.screen
        assert_at_least([b - a for a, b in itertools.pairwise(server.times(MESSAGES))], [0.2, 0.5, 1.0])


class TestQuestions:
    @pytest.mark.parametrize(
        "interrupt",
        [
            {"interrupt_id": 7},
            {"interrupt_id": 7, "type": None, "payload": ["a", 1]},
            {"interrupt_id": 7, "type": "color_picker", "payload": {"presets": ["#FF6B6B"]}, "more": True},
            {"interrupt_id": 7, "type": "user_input", "payload": {"questions": []}},
            {"interrupt_id": 7, "type": "user_input", "payload": {"questions": [{"question": "A"}, {"question": "A"}]}},
            {"interrupt_id": 7, "type": "user_input", "payload": {"questions": [{"question": "A", "options": ["B"]}]}},
            {"interrupt_id": 7, "type": "tool_approval", "payload": {"tool_name": ["rm"]}},
        ],
    )
    def test_whatever_it_is_it_can_be_answered(self, server: ForeignServer, interrupt: dict[str, Any]) -> None:
        with chat(server, asks(interrupt), said("Thanks.")) as terminal:
            terminal.expect("JSON: ")
            terminal.send_line('{"hex": [null]}')
            terminal.expect("✅ Thanks.")
            leave(terminal)
        assert server.bodies(RESUME) == [{"interrupt_id": 7, "value": {"hex": [None]}}]

    def test_all_that_is_said_of_a_call_is_shown(self, server: ForeignServer) -> None:
        with chat(server, asks(approval(cwd="/", risk={"level": 9})), said("Done.")) as terminal:
            terminal.expect('  rm {"path": "a"}\n')
            terminal.expect('"cwd": "/",\n')
            terminal.expect('"level": 9\n')
            terminal.expect("[y/N]: ")
            terminal.send_line()
            leave(terminal)
        assert server.bodies(RESUME) == [{"interrupt_id": "i-1", "value": {"approved": False}}]

    def test_questions_with_less_than_ours_have(self, server: ForeignServer) -> None:
        questions = [{"question": "Name?"}, {"question": "Which?", "options": [{"label": "A"}]}]
        asked = {"interrupt_id": "i", "type": "user_input", "payload": {"questions": questions}}
        with chat(server, asks(asked), said("Thanks.")) as terminal:
            terminal.expect("? Name?  (1/2)\n> ")
            terminal.send_line("Ann")
            terminal.expect("Choice: ")
            terminal.send_line("1")
            leave(terminal)
        (body,) = server.bodies(RESUME)
        assert body["value"] == {"answers": {"Name?": "Ann", "Which?": "A"}}

    @pytest.mark.parametrize("status", [404, 409])
    def test_an_answer_that_comes_too_late_is_no_error(self, server: ForeignServer, status: int) -> None:
        server.replies[RESUME] = [Reply({"detail": "decided by bob"}, status)]
        with chat(server, asks(approval()), said("Done.")) as terminal:
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("Withdrawn: this answer was not taken: decided by bob\n")
            terminal.expect("✅ Done.")
            leave(terminal)

    def test_the_answer_of_a_validator_is_read(self, server: ForeignServer) -> None:
        wrong = {"detail": [{"loc": ["body", "value"], "msg": "Field required", "type": "missing"}]}
        server.replies[RESUME] = [Reply(wrong, 422), Reply({})]
        with chat(server, asks(approval()), said("Done.")) as terminal:
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("  body.value: Field required\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("✅ Done.")
            leave(terminal)


class TestTextsBeforeAQuestion:
    def test_the_answer_of_a_turn_that_has_gone_on_is_not_among_them(self, server: ForeignServer) -> None:
        server.replies[f"GET {SESSION}/messages"] = [
            Reply(
                [{"content": "Hi"}, {"role": "assistant", "content": "One."}, {"role": "assistant", "content": "Done."}]
            )
        ]
        with chat(server, asks(approval()), said("Done.")) as terminal:
            terminal.expect("Withdrawn: ")
            terminal.expect("✅ Done.")
            leave(terminal)
            assert terminal.screen.count("Done.") == 1

    @pytest.mark.parametrize("reply", [CLOSE, Reply({"detail": "Not Found"}, 404), Reply({"no": "list"})])
    def test_a_server_that_does_not_tell_them(self, server: ForeignServer, reply: Reply) -> None:
        server.replies[f"GET {SESSION}/messages"] = [reply]
        with chat(server, asks(approval()), said("Done.")) as terminal:
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("✅ Done.")
            leave(terminal)


class TestMessages:
    def test_one_that_may_have_arrived_is_not_sent_again(self, server: ForeignServer) -> None:
        server.replies[MESSAGES] = [CLOSE]
        with chat(server, state("idle")) as terminal:
            terminal.expect("Your message was probably not sent.\n")
            leave(terminal)
        assert len(server.bodies(MESSAGES)) == 1

    @pytest.mark.parametrize("broken", [CLOSE, Reply(b"<html>", 504)])
    def test_one_that_has_arrived_is_followed(self, server: ForeignServer, broken: Reply) -> None:
        server.replies[MESSAGES] = [broken]
        with chat(server, said("Hello.")) as terminal:
            terminal.expect("✅ Hello.")
            leave(terminal)
        assert len(server.bodies(MESSAGES)) == 1

    def test_what_is_refused_is_said_and_the_chat_goes_on(self, server: ForeignServer) -> None:
        server.replies[MESSAGES] = [Reply({"detail": "too large"}, 413), Reply({}, 202)]
        with chat(server, said("Hello.")) as terminal:
            terminal.expect("too large\n")
            terminal.expect("Your message was not sent.\n")
            ready(terminal)
            terminal.send("\x1b[A\n")
            terminal.expect("✅ Hello.")
            leave(terminal)
        assert [body["content"] for body in server.bodies(MESSAGES)] == ["Hi", "Hi"]

    def test_errors_of_a_turn(self, server: ForeignServer, tmp_path: Path) -> None:
        server.replies[f"GET {SESSION}"] = [state("error", error="Traceback\n  boom")]
        ended = Piped(AgentFolder(tmp_path / "ws"), "--url", server.url).end("Hi\n")
        assert ended.code == 1
        assert ended.out.endswith("❌ Traceback\n    boom\n")


def test_nothing_that_a_server_says_is_obeyed(server: ForeignServer) -> None:
    hostile = " ".join(HOSTILE.values())
    question = {"question": hostile, "header": hostile, "options": [{"label": hostile, "description": hostile}]}
    custom = {"interrupt_id": "3", "type": hostile, "payload": {hostile: hostile}}
    server.replies[RESUME] = [Reply({"detail": hostile}, 422), Reply({})]
    states = [
        asks(approval("1", tool_name=hostile, message=hostile, more=hostile)),
        asks({"interrupt_id": "2", "type": "user_input", "payload": {"questions": [question]}}),
        asks(custom),
        said(hostile),
        state("error", error=hostile),
    ]
    with chat(server, *states) as terminal:
        for prompt, line in (("\n[y/N]: ", "y"), ("\n[y/N]: ", "y"), ("\nChoice: ", "1"), ("\nJSON: ", "1")):
            terminal.expect(prompt)
            terminal.send_line(line)
        say(terminal, "More")
        ready(terminal)
        terminal.send("/exit\n")
        assert terminal.exit_code() == 0
        shown = on_screen(terminal, 120)
    assert_literal(shown)
    assert_shown(shown, ["csi", "bidi", "zero width"], times=5)


_FALSE = "? not-ours asks [y/N]:"


def test_no_refusal_passes_for_a_question(server: ForeignServer) -> None:
    """Neither by a line end of its own nor by being as long as the screen is wide."""

    def refusals(before: str) -> list[Reply]:
        filled = [f"No.{'x' * (116 - len(before) + more)} {_FALSE}" for more in (-1, 0, 1)]
        return [Reply({"detail": text}, 422) for text in (f"No.\n{_FALSE}\r{_FALSE}", *filled)]

    lines: list[str] = []
    server.replies[MESSAGES] = refusals("")
    with ForkedTerminal(["chat", "--url", server.url], cwd="/", columns=120) as terminal:
        for _ in range(4):
            say(terminal, "Hi")
        leave(terminal)
        lines += on_screen(terminal, 120).splitlines()
    server.replies["POST /sessions"] = refusals(f"agentmd: no session was begun at {server.url}: ")
    for _ in range(4):
        with ForkedTerminal(["chat", "--url", server.url], cwd="/", columns=120) as terminal:
            assert terminal.exit_code() == 2
            lines += on_screen(terminal, 120).splitlines()
    assert len([line for line in lines if "[y/N]:" in line]) == 8
    assert not [line for line in lines if line.startswith(("?", "[y/N]", "not-ours"))]


class TestNoServer:
    @pytest.mark.parametrize(
        ("reply", "code", "why"),
        [
            (Reply(b"", 302, {"Location": "http://127.0.0.1:9/\x9b"}), 2, "which is not followed"),
            (Reply(b"<html>Welcome</html>"), 1, "no answer of the sessions interface: <html>Welcome</html>"),
            (Reply([]), 1, "no answer of the sessions interface"),
            (Reply({"session_id": 1, "status": "idle"}), 1, "no answer of the sessions interface"),
            (Reply({"detail": "no agent bot"}, 404), 2, "no session was begun at http://127.0.0.1:"),
            (
                Reply({"detail": "no agent bot"}, 404),
                2,
                ": no agent bot; name the agent: agentmd chat NAME --url http:",
            ),
            (Reply({"detail": [{"msg": "Value error, no", "loc": ["a"]}]}, 422), 2, ": a: no; name the agent"),
            (Reply({"detail": "there is no room"}, 503), 1, "there is no room"),
            (CLOSE, 1, "no answer from http://127.0.0.1:"),
        ],
    )
    def test_at_the_beginning_it_is_said_at_once(
        self, server: ForeignServer, tmp_path: Path, reply: Reply, code: int, why: str
    ) -> None:
        server.replies["POST /sessions"] = [reply]
        ended = Cli(tmp_path)("chat", "--url", server.url)
        assert (ended.code, ended.out) == (code, "")
        assert why in ended.err
        assert_literal(ended.err)
        assert len(server.asked) == 1

    def test_where_nobody_listens(self, tmp_path: Path) -> None:
        with foreign_server() as gone:
            url = gone.url
        ended = Cli(tmp_path)("chat", "--url", url)
        assert (ended.code, ended.out) == (1, "")
        port = url.rpartition(":")[2]
        assert ended.err == (
            f"agentmd: nothing answers at {url}; is the server started there? `agentmd start --port {port}`\n"
        )

    def test_whose_certificate_nobody_vouches_for(self, tmp_path: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        with receiver(context) as secured:
            ended = Cli(tmp_path)("chat", "--url", f"https://127.0.0.1:{secured.port}", "--api-key", "k")
        assert (ended.code, ended.out, secured.received) == (1, "", [])
        assert "certificate" in ended.err

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (["--url", "ftp://h"], "no address of http or https"),
            (["--url", "http://u:p@h"], "AGENTMD_API_KEY"),
            (["--url", "http://h/agents/a", "b"], "give one"),
            (["--url", "http://h", "--api-key", "a b"], "characters that no key has"),
            (["--url", "http://127.0.0.1:9", "--session", ".."], "is no id of a session"),
            (["bot", "--api-key", "k"], "--api-key goes with --url"),
            ([], "which agent?"),
        ],
    )
    def test_wrong_usage(self, tmp_path: Path, words: list[str], why: str) -> None:
        ended = Cli(tmp_path)("chat", *words)
        assert (ended.code, ended.out) == (2, "")
        assert why in ended.err
        assert "u:p" not in ended.err


def test_a_server_that_does_not_tell_what_was_said(server: ForeignServer) -> None:
    server.replies[f"GET {SESSION}"] = [said("Before."), said("Hello.")]
    with ForkedTerminal(["chat", "--url", server.url, "--session", ID], cwd="/", columns=120) as terminal:
        say(terminal, "Hi")
        terminal.expect("✅ Hello.")
        leave(terminal)
    assert len(server.bodies(MESSAGES)) == 1


def test_an_id_that_the_server_does_not_let_us_choose(server: ForeignServer, tmp_path: Path) -> None:
    server.replies["PUT /sessions/mine"] = [Reply({"detail": "Method Not Allowed"}, 405)]
    ended = Cli(tmp_path)("chat", "--url", server.url, "--session", "mine")
    assert ended.code == 2
    assert "there is no session mine at " in ended.err
