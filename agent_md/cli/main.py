"""The `agentmd` command: parses options, runs a command, and converts errors to exit codes."""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from agent_md import __version__
from agent_md.cli.command_group import CommandGroup
from agent_md.cli.exit_codes import INTERRUPTED
from agent_md.cli.terminal.output import NoReader, give_up, note, remark
from agent_md.error_codes import codes_of
from agent_md.errors import AgentmdError, OpenFilesLimit
from agent_md.process.standard_streams import person
from agent_md.resource_shortages import refuse_if_none_left
from agent_md.visible_text import one_line

__all__ = ["app", "main"]

app = typer.Typer(
    name="agentmd",
    cls=CommandGroup,
    help="Run AI agents written as markdown: they pause for you, survive a crash, and do each thing once.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


_EXTRA = re.compile(r"unexpected extra arguments?(?:\(s\))? \((?P<what>.+)\)")
_SUGGESTION = re.compile(r"(?P<what>.*?)\.? (?:Did you mean (?P<commands>.*)\?|\(Possible options: (?P<options>.*)\))")
"""How Typer suggests what may have been meant."""


_PHRASES = (
    (re.compile(r"(?<=: )Value error, "), ""),
    (re.compile(r"(?<=: )Input should be a valid integer.*"), "expected a whole number"),
    (re.compile(r"(?<=: )Input should be greater than or equal to (\d+)"), r"expected \1 or more"),
    (re.compile(r"(?<=: )Input should be less than or equal to (\d+)"), r"expected \1 at most"),
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"agentmd {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="Example: agentmd run cleaner")
def _root(
    context: typer.Context,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", "-w", metavar="FOLDER", help="The folder with agents/.", show_default=False),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help(), file=person(sys.stderr))
        raise typer.Exit(2)
    if workspace is not None:
        context.default_map = {context.invoked_subcommand: {"workspace": workspace}}


def main() -> None:
    """Runs the command line and ends the process; nothing but a message reaches the person, never a traceback."""
    _secure_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells without job control start with it ignored
    logging.getLogger().addHandler(logging.NullHandler())
    logging.captureWarnings(True)
    warnings.simplefilter("default")
    _end(_run())


def _end(code: int) -> NoReturn:
    """Ends at once, whatever a tool left behind: threads, which the interpreter would wait for, and coroutines."""
    for stream in (sys.stdout, sys.stderr, person(sys.stdout), person(sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):  # ValueError: a tool has closed it
            with suppress(OSError, ValueError):
                give_up(stream)
    if threading.active_count() > 1:
        logging.shutdown()
        os._exit(code)
    sys.unraisablehook = lambda _: None
    sys.exit(code)


def _secure_streams() -> None:
    """Streams that were closed lead nowhere, before any other file gets their numbers; what cannot be encoded is
    printed as an escape."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = getattr(sys, name)
        if stream is None:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run() -> int:
    try:
        if "_AGENTMD_COMPLETE" in os.environ and (answered := _answer_shell()) is not None:
            return answered
        result = app(standalone_mode=False, prog_name="agentmd")
    except typer.TyperException as error:
        return _wrong_usage(error)
    except (KeyboardInterrupt, typer.Abort):
        if person(sys.stderr).isatty():
            note("")  # the terminal has shown ^C
        return INTERRUPTED
    except AgentmdError as error:
        _complain(str(error))
        return codes_of(error).exit
    except NoReader:
        return 0
    except OSError as error:
        _complain(_in_words(error))
        return 1
    except Exception as error:
        return _unforeseen(error)
    return result if isinstance(result, int) else 0


def _answer_shell() -> int | None:
    """The exit code, if a shell asks what Tab may complete."""
    from agent_md.cli.completion.shells import complete

    return complete(lambda: typer.main.get_command(app))


def _in_words(error: OSError) -> str:
    try:
        refuse_if_none_left(error, f"{error.filename or 'the command'} cannot be used")
    except OpenFilesLimit as limit:
        return str(limit)
    return f"{error.filename or 'standard output'}: {error.strerror or error}"


def _wrong_usage(error: typer.TyperException) -> int:
    context: typer.Context | None = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "agentmd"
    missing = _what_is_missing(error)
    if missing is not None:
        _complain(missing)
        return error.exit_code
    message = _plain(one_line(error.format_message()))
    if (found := _SUGGESTION.fullmatch(message)) is not None:
        near = (found["commands"] or found["options"]).replace("'", "").replace(", ", " or ")
        _complain(f"{found['what']}; did you mean {near}?")
    elif command.endswith(" start") and (given := _EXTRA.search(message)) is not None:
        _complain(f"start takes no agent, it starts the server; did you mean agentmd run {given['what']}?")
    else:
        _complain(f"{message.rstrip('.')}; see `{command} --help`")
    return error.exit_code


def _what_is_missing(error: typer.TyperException) -> str | None:
    """For an argument that was not given: which one, and a line that has it."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if type(error).__name__ != "MissingParameter" or context is None or parameter is None:
        return None
    example = (context.command.help or "").partition("Example: ")[2].strip()
    name = parameter.metavar or parameter.name
    return f"{context.command_path}: {name} is missing ({parameter.help.rstrip('.')}). Write for example: {example}"


def _plain(message: str) -> str:
    """Without the phrases of the library that reads values."""
    for phrase, plain in _PHRASES:
        message = phrase.sub(plain, message, count=1)
    return message


def _complain(text: str) -> None:
    remark(f"agentmd: {text}")


def _unforeseen(error: Exception) -> int:
    logging.getLogger(__name__).error("unforeseen", exc_info=error)
    if os.environ.get("AGENTMD_LOG_LEVEL", "").upper() == "DEBUG":
        traceback.print_exception(error)
    _complain(
        f"this should not have happened: {type(error).__name__}: {error}. "
        "Set AGENTMD_LOG_LEVEL=DEBUG to see where, and please report it"
    )
    return 1


if __name__ == "__main__":
    main()
