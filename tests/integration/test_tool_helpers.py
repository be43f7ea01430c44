"""Modules of the tools folder that a tool's module imports: they work, an approval covers them, and what runs is the
version that was approved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import AgentFileInvalid, ToolError
from agent_md.tools.base import TargetChanged, Tool
from agent_md.tools.builtin import RESERVED_NAMES
from agent_md.tools.custom import load_custom_tools
from agent_md.tools.tool_modules import ToolModule
from tests.support.driving import Workspace, call, turn

TOOL = '''
from langchain_core.tools import tool
{imports}

@tool
def one() -> str:
    """One."""
    {inside}
    return {value}
'''

WAYS = {
    "from . import": ("from . import helper", "", "helper.VALUE"),
    "from .helper import": ("from .helper import VALUE", "", "VALUE"),
    "import": ("import helper", "", "helper.VALUE"),
    "from helper import": ("from helper import VALUE", "", "VALUE"),
    "import as": ("import helper as h", "", "h.VALUE"),
    "inside the function": ("", "from . import helper", "helper.VALUE"),
    "inside, absolute": ("", "import helper", "helper.VALUE"),
    "in a try": ("try:\n    import helper\nexcept ImportError:\n    raise", "", "helper.VALUE"),
    "through another": ("import other", "", "other.helper.VALUE"),
    "through another, relative": ("from .other import helper as h", "", "h.VALUE"),
    "package": ("import pkg.inner", "", "pkg.inner.VALUE"),
    "package as": ("import pkg.inner as inner", "", "inner.VALUE"),
    "package from": ("from pkg import inner", "", "inner.VALUE"),
    "package relative": ("from .pkg.inner import VALUE", "", "VALUE"),
    "package star": ("from pkg import *", "", "inner.VALUE"),
    "folder without init": ("from plain import inner", "", "inner.VALUE"),
    "own path on sys.path": (
        "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\nimport helper",
        "",
        "helper.VALUE",
    ),
    "importlib, relative": (
        "import importlib\nhelper = importlib.import_module('.helper', __package__)",
        "",
        "helper.VALUE",
    ),
    "__import__": ("", "helper = __import__('helper')", "helper.VALUE"),
    "exec": (
        "import pathlib",
        "space = {}; exec(pathlib.Path(__file__).with_name('helper.py').read_text(), space)",
        "space['VALUE']",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))  # one of the ways changes it
    tools = tmp_path / "tools"
    for name, text in {
        "helper.py": "VALUE = 'first'",
        "other.py": "from . import helper",
        "apart.py": "VALUE = 'first'",
        "pkg/__init__.py": "__all__ = ['inner']",
        "pkg/inner.py": "from helper import VALUE",
        "plain/inner.py": "from ..helper import VALUE",
    }.items():
        (tools / name).parent.mkdir(parents=True, exist_ok=True)
        (tools / name).write_text(text + "\n")
    return tools


def tool_in(folder: Path, source: str) -> Tool:
    (folder / "m.py").write_text(source)
    (tool,) = load_custom_tools(folder, ["m"], reserved=RESERVED_NAMES)
    return tool


async def result(tool: Tool) -> str:
    return await tool.run({}, tool.plan({}))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_an_edited_helper_is_another_action_and_what_is_approved_is_what_runs(
    folder: Path, way: tuple[str, str, str]
) -> None:
    imports, inside, value = way
    tool = tool_in(folder, TOOL.format(imports=imports, inside=inside, value=value))
    approved = tool.plan({})
    assert await tool.run({}, approved) == "first"
    (folder / "helper.py").write_text("VALUE = 'other'\n")
    with pytest.raises(TargetChanged, match="the source of one"):
        await tool.run({}, approved)
    assert tool.plan({}).digest != approved.digest
    assert await result(tool) == "other"
    (folder / "helper.py").write_text("VALUE = 'first'\n")
    assert await tool.run({}, approved) == "first"


async def test_a_file_that_is_not_imported_is_not_covered(folder: Path) -> None:
    tool = tool_in(folder, TOOL.format(imports="from . import helper", inside="", value="helper.VALUE"))
    approved = tool.plan({})
    (folder / "apart.py").write_text("VALUE = 'other'\n")
    (folder / "data.json").write_text("{}")
    assert tool.plan({}) == approved


async def test_a_late_import_is_of_the_version_that_was_approved(folder: Path) -> None:
    """Also when the file is edited while the tool runs."""
    source = TOOL.format(
        imports="from pathlib import Path",
        inside="Path(__file__).with_name('helper.py').write_text('VALUE = 1/0')\n    from . import helper",
        value="helper.VALUE",
    )
    assert await result(tool_in(folder, source)) == "first"


async def test_tools_have_their_helpers_for_themselves_as_they_were_approved(folder: Path) -> None:
    source = TOOL.format(imports="import helper", inside="", value="helper.VALUE")
    tool = tool_in(folder, source)
    (folder / "n.py").write_text(source.replace("def one", "def two"))
    (other,) = load_custom_tools(folder, ["n"], reserved=RESERVED_NAMES)
    assert await result(tool) == await result(other) == "first"


async def test_the_standard_library_and_the_package_a_tool_is_named_after_come_from_outside(folder: Path) -> None:
    for name in ("json", "jsonschema"):
        (folder / f"{name}.py").write_text("VALUE = 'of the folder'\n")
    source = TOOL.format(imports="import json, jsonschema", inside="", value="json.dumps([jsonschema.VALUE])")
    assert await result(tool_in(folder, source)) == '["of the folder"]'
    (folder / "jsonschema.py").write_text(
        TOOL.format(imports="import jsonschema", inside="", value="jsonschema.__name__")
    )
    (tool,) = load_custom_tools(folder, ["jsonschema"], reserved=RESERVED_NAMES)
    assert await result(tool) == "jsonschema"


async def test_a_file_loaded_by_name_is_refused_since_python_would_keep_its_first_version(folder: Path) -> None:
    path = "import importlib, os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"
    late = TOOL.format(imports=path, inside="helper = importlib.import_module('helper')", value="helper.VALUE")
    with pytest.raises(ToolError, match=r"helper is a file of the tools folder .* \(from \. import helper\)"):
        await result(tool_in(folder, late))
    with pytest.raises(AgentFileInvalid, match=r"m\.py, line 5: ImportError: helper is a file of the tools folder"):
        tool_in(folder, TOOL.format(imports=path + "importlib.import_module('helper')", inside="", value="''"))


async def test_code_that_is_no_tool_may_import_files_of_the_folder(folder: Path) -> None:
    """Such as tests of the tools, in a process that runs them too."""
    import importlib
    import sys

    assert (
        await result(tool_in(folder, TOOL.format(imports="import helper", inside="", value="helper.VALUE"))) == "first"
    )
    sys.path.insert(0, str(folder))
    try:
        assert importlib.import_module("helper").VALUE == "first"
    finally:
        sys.modules.pop("helper", None)


@pytest.mark.parametrize(
    ("imports", "helper", "message"),
    [
        ("from . import gone", "", r"m\.py, line 3: ImportError: cannot import name 'gone' from 'the tools folder'"),
        ("from .gone import x", "", r"m\.py, line 3: ModuleNotFoundError: No module named 'gone'"),
        ("from ... import x", "", r"m\.py, line 3: ImportError: attempted relative import beyond top-level package"),
        ("import helper", "1/0", r"helper\.py, line 1: ZeroDivisionError: division by zero"),
        ("import helper", "def (", r"helper\.py, line 1: SyntaxError"),
    ],
)
def test_an_import_that_fails_names_its_file_and_line(folder: Path, imports: str, helper: str, message: str) -> None:
    (folder / "helper.py").write_text(helper)
    with pytest.raises(AgentFileInvalid, match=message):
        tool_in(folder, TOOL.format(imports=imports, inside="", value="''"))
    (folder / "helper.py").write_text("VALUE = 'first'")
    assert tool_in(folder, TOOL.format(imports="import helper", inside="", value="''")).name == "one"


def test_the_digest_of_a_module_without_helpers_is_that_of_its_file(folder: Path) -> None:
    """As it always was: approvals given before hold."""
    import hashlib

    (folder / "m.py").write_text("import json\n")
    assert ToolModule(folder, "m").read().digest == hashlib.sha256(b"import json\n").hexdigest()


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "another process"])
def test_a_helper_edited_after_the_question_does_not_run_under_the_old_yes(work: Workspace, restart: bool) -> None:
    work.tools("""
        from . import helper

        @tool
        def greet() -> str:
            '''Greets.'''
            return effect(helper.word())
    """)
    helper = work.folder / "agents/_config/tools/helper.py"
    helper.write_text("def word(): return 'shown'\n")
    work.agent("tools: [kit]\nconfirm: [greet]")
    work.script(turn(call("greet")), "Done.")
    work.start()
    asked: Any = work.the_request()
    helper.write_text("def word(): return 'never shown'\n")
    if restart:
        work.restart()
    work.answer(asked, {"approved": True})
    again = work.the_request()
    assert again.id != asked.id
    assert "its source was changed since this was approved" in again.message
    assert not (work.folder / "world.log").exists()
    work.answer(again, {"approved": True})
    work.check_succeeded()
    assert (work.folder / "world.log").read_text() == "never shown\n"
