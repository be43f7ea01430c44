"""The process in which a server drives one suspect: `python -m agent_md.api.suspect_process WORKSPACE ID`.

No command for people: they use `resume`, which is alone in its process anyway.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from agent_md.app import App
from agent_md.error_codes import codes_of
from agent_md.errors import AgentmdError
from agent_md.executions.ids import ExecutionId
from agent_md.ports.progress import NO_PROGRESS
from agent_md.process.log_file import log_to_file
from agent_md.process.standard_streams import divert_tool_output
from agent_md.python_command import python_command
from agent_md.settings import load_settings

__all__ = ["alone_command"]

log = logging.getLogger(__name__)


def alone_command(workspace: Path, execution_id: ExecutionId) -> list[str]:
    """What starts such a process."""
    return python_command("-m", "agent_md.api.suspect_process", str(workspace), str(execution_id))


def main(workspace: Path, execution_id: ExecutionId) -> int:
    """Drives the execution if it is free; gives the exit code, that of the error if there was one."""
    app = App(load_settings(workspace, environ=os.environ, cwd=workspace, home=Path.home()))
    os.chdir(workspace)
    divert_tool_output(app.settings.state_dir)
    log_to_file(app.settings, app.found_secrets)
    try:
        asyncio.run(_drive(app, execution_id))
    except AgentmdError as error:
        log.warning("execution %s was left by the process that drove it alone: %s", execution_id, error)
        return codes_of(error).exit
    finally:
        app.close()
    return 0


async def _drive(app: App, execution_id: ExecutionId) -> None:
    runner = app.runner()  # all that is imported for it comes before the claim
    claim = app.store.claim(execution_id, app.worker)
    if claim is None:
        return
    drive = asyncio.create_task(runner.advance(claim, NO_PROGRESS, lambda: _is_clear(app, execution_id)))

    def stop() -> None:
        app.note_stop_request()
        drive.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with suppress(asyncio.CancelledError):
        await drive


def _is_clear(app: App, execution_id: ExecutionId) -> bool:
    return not app.store.execution(execution_id).suspect


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), ExecutionId(int(sys.argv[2])))
    os._exit(code)  # whatever a tool left behind: threads, which the interpreter would wait for
