"""Text of others is printed literally, visibly and whole by every command, and comes through JSON as it is."""

from __future__ import annotations

import json

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Outcome
from agent_md.ports.store import NewAnswer
from tests.support.agent_folder import AgentFolder, call
from tests.support.hostile import HOSTILE, LONG, assert_literal, assert_shown, stored, strings_of

TOOLS = '''
from langchain_core.tools import tool

@tool
def echo(text: str) -> str:
    """Gives the text."""
    return text

@tool
def fail(text: str) -> str:
    """Fails with the text."""
    raise ValueError(text)
'''

TEXTS = list(HOSTILE.values())
ALL = " ¦ ".join(TEXTS)
TYPED = [text.replace("\x00", "").replace("\ud800", "").replace("\udfff", "") for text in TEXTS]
"""As far as an argument of a command can hold them."""

ASKING, GUARDED, DECIDED, FAILED, CANCELLED = 1, 2, 3, 4, 5


EVERYTHING = tuple(HOSTILE)
OF_MODELS = ("csi", "osc", "dcs", "bidi", "zero width", "tags", "selectors", "markup")
"""As much as fits into the error of a model, which is kept on one line of limited length."""

SURFACES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pending": (("pending",), EVERYTHING),
    "what it says and asks": (("logs", "-e", str(ASKING)), EVERYTHING),
    "what is guarded": (("logs", "-e", str(GUARDED)), EVERYTHING),
    "who decided": (("logs", "-e", str(DECIDED)), EVERYTHING),
    "how it failed": (("logs", "-e", str(FAILED)), OF_MODELS),
    "logs": (("logs",), ()),
    "explain": (("explain", "guarded"), ()),
    "resumable": (("resume",), ()),
}
"""Commands that only show, and the names of what each must show of the corpus, on a terminal and in a pipe."""


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> AgentFolder:
    """A workspace in which everything that others may write is hostile; its executions have the numbers above."""
    folder = AgentFolder(tmp_path_factory.mktemp("hostile") / "ws")
    folder.tools("echoes", TOOLS)
    echoes = [call("echo", text=text) for text in TEXTS]
    fails = [call("fail", text=text) for text in TEXTS]
    questions = [call("ask_user", question=text, kind="choice", options=[text, "plain"]) for text in TEXTS]
    settings = "tools: [echoes]\nsettings: {max_tool_calls: 200}\non_pending: parallel"
    folder.agent("asker", [{"text": ALL, "calls": [*echoes, *fails]}, {"calls": questions}, {"text": ALL}], settings)
    folder.agent("guarded", [{"calls": echoes}, {"text": ALL}], f"confirm: [echo]\n{settings}")
    folder.agent(
        "failing", [{"error": {"kind": "bad_request", "message": " ¦ ".join(HOSTILE[name] for name in OF_MODELS)}}]
    )
    for name in ("asker", "guarded", "guarded"):
        assert folder.cli("run", name).code == 3
    assert folder.cli("run", "failing").code == 1
    folder.begin("guarded")
    with folder.store() as store:
        requests = store.requests(ExecutionId(DECIDED))
        for request, text in zip(requests, TEXTS, strict=True):
            value = {"approved": False, "reason": text}
            store.record_answers([NewAnswer(request.id, Outcome.DENIED, value)], by=f"api:{text}")
        store.request_cancel(ExecutionId(CANCELLED), ALL)
    for number, text in enumerate(TYPED):
        key = json.dumps(text.replace("\U000e0041\U000e0042", ""))
        (folder.path / f"agents/bad{number}.md").write_text(f"---\n{key}: 1\n---\n")
    return folder


@pytest.mark.parametrize("surface", SURFACES)
def test_a_pipe_gets_it_literally_and_whole(evil: AgentFolder, surface: str) -> None:
    args, names = SURFACES[surface]
    ended = evil.cli(*args)
    assert ended.code == 0, ended
    assert_literal(ended.out + ended.err)
    assert_shown(ended.out, names)


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("surface", SURFACES)
def test_a_terminal_shows_it_literally_and_whole(evil: AgentFolder, surface: str, columns: int) -> None:
    args, names = SURFACES[surface]
    with evil.terminal(*args, columns=columns, env={"NO_COLOR": None}) as terminal:
        assert terminal.exit_code() == 0
        assert_shown(terminal.shown, names)


def test_nothing_is_obeyed_while_a_list_is_watched(evil: AgentFolder) -> None:
    with evil.terminal("pending", "--watch") as terminal:
        terminal.expect(f"{GUARDED}-0.{len(TEXTS) - 1})\n")
        assert_shown(terminal.shown, times=2)


def test_files_that_cannot_be_used(evil: AgentFolder) -> None:
    for args, code in (("list",), 0), (("validate",), 1):
        ended = evil.cli(*args)
        assert ended.code == code
        assert_literal(ended.out + ended.err)
        assert_shown(
            ended.out,
            (
                "csi",
                "osc",
                "bidi",
                "zero width",
                "markup",
                "overwrite",
                "separators",
            ),
        )


def test_a_file_whose_name_is_hostile(folder: AgentFolder) -> None:
    names = [text.replace("/", "").replace("\x00", "")[:60] for text in TEXTS if "\ud800" not in text]
    for name in names:
        (folder.path / f"agents/{name}.md").write_text("no frontmatter")
    for args, code in (("list",), 0), (("validate",), 1):
        ended = folder.cli(*args)
        assert ended.code == code
        assert_literal(ended.out + ended.err)
        assert_shown(
            ended.out,
            (
                "csi",
                "zero width",
                "bidi",
            ),
        )
    assert_literal(folder.cli("run", names[0]).err)


def test_a_run_in_a_pipe(evil: AgentFolder) -> None:
    ended = evil.cli("run", "asker")
    assert ended.code == 3
    assert_literal(ended.out + ended.err)
    assert_shown(ended.out, times=3)
    failed = evil.cli("run", "failing", "-q")
    assert failed.code == 1
    assert_literal(failed.err)
    assert_shown(failed.err, OF_MODELS)


def test_a_run_on_a_terminal_and_its_questions(evil: AgentFolder) -> None:
    with evil.terminal("run", "asker", columns=60) as terminal:
        for _ in TEXTS:
            terminal.expect("2. plain\n")
            terminal.expect("Choice: ")
            terminal.send_line("2")
        assert terminal.exit_code() == 0
        assert_shown(terminal.shown, times=5)


def test_guarded_calls_on_a_terminal(evil: AgentFolder) -> None:
    with evil.terminal("respond", str(GUARDED), columns=60) as terminal:
        terminal.expect("  ⚠ this request holds control, hidden or reordering")
        terminal.expect("[y/N]: ")
        terminal.send("\x04")
        assert terminal.exit_code() == 3
        assert_shown(terminal.shown, ("csi",))


def test_what_is_typed_as_an_argument(evil: AgentFolder) -> None:
    for args in (("run", *TYPED[:1]), ("logs", *TYPED[:1]), ("respond", TYPED[0], "--yes"), (TYPED[0],)):
        ended = evil.cli(*args)
        assert ended.code == 2
        assert_literal(ended.out + ended.err)
        assert_shown(ended.err, ("csi",))


def test_a_reason_and_who_gave_it_are_shown_by_the_command_that_goes_on(folder: AgentFolder) -> None:
    folder.file("a.txt")
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}])
    folder.begin("cleaner")
    ended = folder.cli("respond", "1", "--no", "--reason", " ¦ ".join(TYPED))
    assert ended.code == 0
    assert_literal(ended.out)
    names = [name for name in HOSTILE if name not in ("controls", "surrogates")]
    assert_shown(ended.out, names)


def test_who_cancelled(evil: AgentFolder) -> None:
    ended = evil.cli("resume", str(CANCELLED))
    assert ended.code == 4
    assert_literal(ended.out)
    assert_shown(ended.out)


@pytest.mark.parametrize(
    "args",
    [
        ("pending", "--json"),
        ("logs", "-e", str(ASKING), "--json"),
        ("logs", "-e", str(DECIDED), "--json"),
    ],
)
def test_json_keeps_what_it_was(evil: AgentFolder, args: tuple[str, ...]) -> None:
    ended = evil.cli(*args)
    assert ended.out.isascii()
    found = strings_of(json.loads(ended.out))
    assert [name for name, text in HOSTILE.items() if not any(stored(text) in one for one in found)] == []


def test_a_run_as_json_keeps_what_it_was(evil: AgentFolder) -> None:
    ended = evil.cli("run", "asker", "--json")
    assert ended.out.isascii()
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert (lines[0]["event"], lines[-1]["event"]) == ("execution_started", "waiting")
    shown = [line["args"]["text"] for line in lines if line["event"] == "tool_call" and line["tool_name"] == "echo"]
    assert shown == [stored(text) for text in TEXTS]
    assert [request["message"] for request in lines[-1]["requests"]] == [stored(text) for text in TEXTS]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> AgentFolder:
    """A guarded call, a result and an answer of 100 KB in one line each."""
    folder = AgentFolder(tmp_path_factory.mktemp("long") / "ws")
    folder.tools("echoes", TOOLS)
    folder.agent(
        "long",
        [{"calls": [call("echo", text=LONG)]}, {"text": LONG}],
        "tools: [echoes]\nconfirm: [echo]\non_pending: parallel",
    )
    folder.begin("long")
    return folder


def test_a_long_line_is_shown_whole_at_the_prompt(long: AgentFolder) -> None:
    with long.terminal("run", "long") as terminal:
        terminal.expect(f'🔧 echo → {{"text": ({len(LONG):,} characters)}}\n')
        terminal.expect("END")
        terminal.expect(f'? Confirm echo {{"text": ({len(LONG):,} characters)}} [y/N]: ')
        terminal.send_line("y")
        terminal.expect("END")
        assert terminal.exit_code() == 0
    with long.store() as store:
        number = str(store.executions(limit=1)[0].id)
    assert LONG in long.cli("logs", "-e", number).out


def test_a_long_line_is_whole_in_the_log_and_named_by_its_size_in_a_list(long: AgentFolder) -> None:
    for args, text in ((("pending",), f"({len(LONG):,}characters)"), (("logs", "-e", "1"), LONG)):
        with long.terminal(*args) as terminal:
            assert terminal.exit_code() == 0
            assert terminal.screen.replace("\n", "").replace(" ", "").count(text) >= 1


def test_names_that_look_odd_but_are_allowed(folder: AgentFolder) -> None:
    for name in ("Größe 1", "прибирач", "お掃除", "a_b-c"):
        folder.agent(name, [{"text": "Done."}])
        assert folder.cli("run", name).out.endswith(f"{name} ✅ Done.\n")
    assert all(name in folder.cli("list").out for name in ("Größe 1", "прибирач", "お掃除", "a_b-c"))


def test_bytes_that_are_no_text(folder: AgentFolder) -> None:
    folder.agent("asker", [{"calls": [call("ask_user", question="Title?")]}, {"text": "Done."}])
    assert folder.cli("run", "asker", "\udcff", "-m", "\udcfe").code == 3
    ended = folder.cli("respond", "1", "--text", "caf\udce9")
    assert (ended.code, ended.err) == (0, "")
    assert folder.results()[0] in (r"caf\udce9", "caf\ufffd")
    assert r"\udcff" in folder.cli("logs", "-e", "1").out
