"""Common mistakes of newcomers, and of those who come from another program: each message names the line to write."""

from __future__ import annotations

import importlib
from pathlib import Path
from textwrap import dedent

import pytest

from agent_md import sdk
from agent_md.agents.defaults import Defaults
from agent_md.agents.parse_spec import parse_agent
from agent_md.errors import AgentFileInvalid, ConfigInvalid, ToolError
from agent_md.executions.states import Outcome
from agent_md.settings import load_settings
from agent_md.tools.builtin import RESERVED_NAMES
from agent_md.tools.custom import load_custom_tools
from tests.support.agent_folder import AgentFolder
from tests.support.call_context import FakeCall, running_call


def parsed(settings: str) -> str:
    """The model of an agent file, or its mistakes."""
    try:
        return str(parse_agent(f"---\n{settings}\n---\nWork.\n".encode(), "agents/a.md", Defaults()).model)
    except AgentFileInvalid as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("google/gemini-2.5-flash", "google/gemini-2.5-flash"),
        ("'openai/gpt-4.1'", "openai/gpt-4.1"),
        ("ollama/llama3:8b", "ollama/llama3:8b"),
        ("local/meta-llama/Llama-3-8B", "local/meta-llama/Llama-3-8B"),
    ],
)
def test_a_model_may_be_written_as_it_is_shown(text: str, model: str) -> None:
    assert parsed(f"model: {text}") == model


def test_both_forms_of_a_model_are_the_same_agent() -> None:
    texts = ("model: google/gemini-2.5-pro", "model: {provider: google, name: gemini-2.5-pro}")
    first, second = (parse_agent(f"---\n{text}\n---\nx\n".encode(), "a.md", Defaults()) for text in texts)
    assert first.digest == second.digest


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("model: gemini-2.5-pro", "write model: google/gemini-2.5-pro (the providers are google, "),
        ("model: gogle/gemini-2.5-pro", "write model: google/gemini-2.5-pro (the"),
        ("model: meta/llama-3", "write model: PROVIDER/meta/llama-3 (the providers are"),
        ("model: google/", '"google/" is no PROVIDER/NAME'),
        ("model: 1.5", "YAML reads 1.5 as the number 1.5"),
        ("model: [google/x]", "model: expected a mapping"),
        (
            "model: {temperature: 0.2}",
            "model.temperature: it is one of settings, beside model; write settings: {temperature: 0.2}",
        ),
        ("model: {timeout: 30}", "write settings: {timeout: 30}"),
        ("prompt: Do it.", "prompt: what the agent is told is the text below the second ---; write it there"),
        ("prompt: |\n  Do it.\n  Now.", "write it there, and remove this"),
        ("system_prompt: Do it.", "write it there, and remove this"),
        ("settings: {timeout: 30m}", "settings.timeout: expected a number of seconds; write timeout: 1800"),
        ("settings: {timeout: '2h'}", "write timeout: 7200"),
    ],
)
def test_what_to_write_in_an_agent_file(settings: str, line: str) -> None:
    assert line in parsed(settings)


def test_a_time_in_the_place_of_seconds_in_config_yaml(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("defaults: {timeout: 30m}\n")
    with pytest.raises(ConfigInvalid, match=r"defaults\.timeout: expected a number of seconds; write timeout: 1800"):
        load_settings(tmp_path, environ={}, cwd=tmp_path, home=tmp_path)


BILLING = '''
from langchain_core.tools import StructuredTool, tool

@tool
def send_invoice(to: str) -> str:
    """Sends."""
    return to

@tool("pay-back")
def other(to: str) -> str:
    """Pays."""
    return to

third = StructuredTool.from_function(lambda to: to, name="third", description="x")
'''


def mistakes(folder: Path, *modules: str) -> list[str]:
    with pytest.raises(AgentFileInvalid) as refused:
        load_custom_tools(folder, modules, reserved=RESERVED_NAMES)
    return str(refused.value).split("\n")


def module(folder: Path, name: str, source: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(dedent(source))
    return path


def test_tools_that_are_no_modules(tmp_path: Path) -> None:
    module(tmp_path, "billing", BILLING)
    module(tmp_path, "broken", "def (")
    builtin = "tools: file_read is a built-in tool, which every agent has; "
    assert mistakes(tmp_path, "file_read") == [f"{builtin}remove the line"]
    assert mistakes(tmp_path, "billing", "file_read") == [f"{builtin}write tools: [billing]"]
    for name in ("send_invoice", "pay-back", "third"):
        assert mistakes(tmp_path, name) == [
            f"tools: names modules, and {name} is a tool of {tmp_path}/billing.py; write tools: [billing]"
        ]
    assert mistakes(tmp_path, "send_invoice", "billing")[0].endswith("; write tools: [billing]")
    assert "there is no such module" in mistakes(tmp_path, "nothing")[0]


def test_a_tool_class_of_which_no_tool_is_made(tmp_path: Path) -> None:
    source = """
    from langchain_core.tools import BaseTool

    class Common(BaseTool):
        def _run(self, text: str) -> str:
            return text

    class WebSearch(Common):
        name: str = "web_search"
        description: str = "Searches."
    """
    path = module(tmp_path, "web", source)
    said = f"{path}: WebSearch is a tool class, and no tool is made of it; write below it: web_search = WebSearch()"
    assert mistakes(tmp_path, "web") == [said]
    module(tmp_path, "web", dedent(source) + "\nweb_search = WebSearch()\n")
    (tool,) = load_custom_tools(tmp_path, ["web"], reserved=RESERVED_NAMES)
    assert tool.name == "web_search"


def test_tool_options_without_parentheses(tmp_path: Path) -> None:
    source = '''
    from langchain_core.tools import tool
    from agent_md.sdk import tool_options

    @tool
    @tool_options
    def pay() -> str:
        """Pays."""
        return ""
    '''
    path = module(tmp_path, "pay", source)
    (said,) = mistakes(tmp_path, "pay")
    assert said.startswith(f"{path}, line ")
    assert "needs parentheses: write @tool_options(requires_approval=True)" in said


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("from agent_md.sdk import request_confirmation", "request_confirmation('Pay?')"),
        ("from agent_md.sdk import request_confirmation as confirm", "confirm('Pay?')"),
        ("from agent_md import sdk", "sdk.request_confirmation('Pay?')"),
        ("import agent_md.sdk", "agent_md.sdk.request_confirmation('Pay?')"),
    ],
)
def test_a_question_that_is_awaited(tmp_path: Path, imported: str, called: str) -> None:
    source = f'{imported}\nfrom langchain_core.tools import tool\n\n@tool\nasync def pay() -> str:\n    """Pays."""\n'
    path = module(tmp_path, "pay", f"{source}    return str(await {called})\n")
    assert mistakes(tmp_path, "pay") == [
        f"{path}, line 7: request_confirmation() gives the answer itself; write it without await"
    ]
    module(tmp_path, "pay", f"{source}    return str({called})\n")
    assert [tool.name for tool in load_custom_tools(tmp_path, ["pay"], reserved=RESERVED_NAMES)] == ["pay"]


async def test_a_question_that_is_awaited_where_it_cannot_be_seen_before(tmp_path: Path) -> None:
    source = '''
    from langchain_core.tools import tool
    from asking import request_confirmation

    @tool
    async def pay() -> str:
        """Pays."""
        return str(await request_confirmation("Pay?"))
    '''
    module(tmp_path, "asking", "from agent_md.sdk import *\n")
    module(tmp_path, "pay", source)
    (tool,) = load_custom_tools(tmp_path, ["pay"], reserved=RESERVED_NAMES)
    with running_call(FakeCall([(Outcome.APPROVED, {"approved": True})])), pytest.raises(ToolError) as failed:
        await tool.run({}, tool.plan({}))
    assert "give the answer itself: write them without await" in str(failed.value)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("resolve_path", "`context().resolve_path(path)`"),
        ("workspace_root", "`context().workspace`"),
        ("agent_name", "`context().agent`"),
        ("agent_paths", "`context().resolve_path(alias)`"),
    ],
)
def test_names_of_another_sdk(tmp_path: Path, name: str, line: str) -> None:
    path = module(tmp_path, "old", f"from agent_md.sdk import {name}\n")
    (said,) = mistakes(tmp_path, "old")
    assert said.startswith(f"{path}, line 1: ImportError: agent_md.sdk has no {name}; ")
    assert "write `from agent_md.sdk import context`" in said
    assert line in said


def test_any_other_name_is_missing_as_in_every_module() -> None:
    assert not hasattr(importlib.import_module("agent_md.sdk"), "nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from agent_md.sdk import nothing")
    assert set(sdk.__all__) <= set(dir(sdk))


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (
            ["run"],
            "AGENT is missing (The agent's name, or the path of its file). Write for example: agentmd run cleaner",
        ),
        (["respond"], "Write for example: agentmd respond 42 --yes"),
        (["settle", "1"], "POSITION is missing"),
    ],
)
def test_an_argument_that_was_left_out(tmp_path: Path, command: list[str], line: str) -> None:
    ended = AgentFolder(tmp_path / "ws").cli(*command)
    assert (ended.code, ended.out) == (2, "")
    assert line in " ".join(ended.err.split())
