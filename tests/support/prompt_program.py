"""Asks one request on its terminal and prints the response as JSON: `python -m tests.support.prompt_program NAME`.

SIGUSR1 starts a question of a `late` program, and withdraws an open one.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_md.cli.asking.ask_request import ask_request
from agent_md.cli.asking.grant_prompt import local_granting
from agent_md.cli.asking.prompt import PromptClosed, TerminalPrompt
from agent_md.cli.views.request_details import everything
from agent_md.cli.views.screen import Screen
from agent_md.errors import AnswerRefused
from agent_md.executions.grants import GrantOffer, GrantScope
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Preview, Request
from agent_md.executions.states import RequestKind, RequestSource
from tests.support.structured import option, question

if TYPE_CHECKING:
    from rich.console import RenderableType

CONFIRM = Request(
    id=RequestId("r1"),
    execution_id=ExecutionId(42),
    agent="cleaner",
    position=Position(0, 0),
    source=RequestSource.GATE,
    kind=RequestKind.CONFIRM,
    message="",
    digest="",
    occurrence=0,
    created_at=0,
    tool_name="file_delete",
    tool_args={"path": "output/stale.log"},
)
ASKED = replace(CONFIRM, source=RequestSource.TOOL, tool_name=None, tool_args=None)
REQUESTS = {
    "confirm": CONFIRM,
    "offered": replace(CONFIRM, offer=GrantOffer("file_delete(output/*)", "digest", ("output/stale.log",))),
    "long": replace(CONFIRM, preview=Preview(diff="\n".join(f"+line {number}" for number in range(100)))),
    "huge": replace(CONFIRM, tool_args={"numbers": list(range(1000, 1400))}),
    "long text": replace(CONFIRM, tool_args={"path": "a", "content": "".join(f"line {n}\n" for n in range(80))}),
    "odd": replace(ASKED, kind=RequestKind.CHOICE, message="Which?", options=("?", "e")),
    "input": replace(ASKED, kind=RequestKind.INPUT, message="Enter the report title:"),
    "choice": replace(ASKED, kind=RequestKind.CHOICE, message="Which?", options=("staging", "production")),
    "multi": replace(ASKED, kind=RequestKind.CHOICE, message="Which?", options=("a", "b", "c"), multi=True),
    "custom": replace(
        ASKED,
        kind=RequestKind.CUSTOM,
        message="Rate it",
        payload={"type": "rating"},
        response_schema={"type": "integer"},
    ),
    "questions": replace(
        ASKED,
        kind=RequestKind.QUESTIONS,
        questions=(
            question("How?", option("Fast", "In a hurry"), option("Slow", markdown="1\n  2"), header="Way"),
            question("What?", option("A"), option("B"), multi=True, header="Kind"),
        ),
    ),
    "tall": replace(
        ASKED,
        kind=RequestKind.QUESTIONS,
        questions=(
            question("How?", option("Fast", markdown="\n".join(f"line {n}" for n in range(60))), option("Slow")),
        ),
    ),
}


class Details:
    """`RequestDetails` of a request that nobody stored. A path in `secret/` is refused."""

    editable = True

    def __init__(self, request: Request) -> None:
        self._request = request
        self.granting = local_granting(request, (GrantScope.SESSION, GrantScope.EXECUTION, GrantScope.AGENT))
        """As in a session."""

    async def everything(self, request: Request) -> Sequence[RenderableType]:
        said = ["12:00:00 cleaner 👤 Clean up."]
        return everything(request, rule="confirm_tools: file_delete", conversation=said)

    async def edited(self, args: dict[str, Any]) -> Request:
        if str(args.get("path")).startswith("secret/"):
            raise AnswerRefused("the edited arguments are refused: secret/ is out of bounds; nothing was run")
        return replace(self._request, tool_args=args)


async def main(name: str, *, late: bool) -> int:
    loop = asyncio.get_running_loop()
    started = asyncio.Event()
    if late:
        loop.add_signal_handler(signal.SIGUSR1, started.set)
        print("ready", flush=True)
        await started.wait()
    prompt = TerminalPrompt(Screen.of(sys.stdout))
    asking = asyncio.create_task(ask_request(REQUESTS[name], prompt, Details(REQUESTS[name])))
    for number in (signal.SIGINT, signal.SIGUSR1):
        loop.add_signal_handler(number, asking.cancel)
    try:
        response = await asking
    except PromptClosed as closed:
        print(f"closed: {closed}")
        return 3
    except asyncio.CancelledError:
        print("withdrawn")
        line = sys.stdin.readline()
        print(f"next line: {line!r}, threads: {threading.active_count()}")
        return 0
    print(f"response: {json.dumps(response)}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], late="late" in sys.argv[2:])))
