"""The `agentmd` command: its commands, and the one place where an error becomes an exit code."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated

import click
import typer

from agent_md import __version__
from agent_md.cli import answers, inspect, runs
from agent_md.cli.text import visible
from agent_md.errors import AgentmdError, codes_of

__all__ = ["app", "main"]

app = typer.Typer(
    name="agentmd",
    help="Run AI agents written as markdown: they pause for you, survive a crash, and do each thing once.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)

app.command()(runs.run)
app.command()(answers.pending)
app.command()(answers.respond)
app.command()(runs.resume)
app.command()(answers.cancel)
app.command("list")(inspect.list_agents)
app.command()(inspect.logs)
app.command()(inspect.validate)
app.command()(inspect.info)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"agentmd {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    workspace: Annotated[
        Path | None, typer.Option("--workspace", "-w", help="The folder with agents/.", show_default=False)
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if workspace is not None:
        context.default_map = {name: {"workspace": workspace} for name in _command_names()}


def _command_names() -> list[str]:
    return list(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def main() -> None:
    """Runs the command line and ends the process; nothing but a message reaches the person, never a traceback."""
    logging.getLogger().addHandler(logging.NullHandler())
    logging.captureWarnings(True)
    warnings.simplefilter("default")
    sys.exit(_run())


def _run() -> int:
    try:
        result = app(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except AgentmdError as error:
        _complain(str(error))
        return codes_of(error).exit
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to say to nobody
        return 0
    except Exception as error:
        return _unforeseen(error)
    return result if isinstance(result, int) else 0


def _complain(text: str) -> None:
    print(f"agentmd: {visible(text)}", file=sys.stderr, flush=True)


def _unforeseen(error: Exception) -> int:
    logging.getLogger(__name__).error("unforeseen", exc_info=error)
    if os.environ.get("AGENTMD_LOG_LEVEL", "").upper() == "DEBUG":
        traceback.print_exception(error)
    _complain(
        f"this should not have happened: {type(error).__name__}: {error}. "
        "Set AGENTMD_LOG_LEVEL=DEBUG to see where, and please report it"
    )
    return 1
