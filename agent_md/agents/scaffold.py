"""The text of a new agent file, and of a script for its model. The text can always be parsed again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_md.agents.defaults import Defaults
from agent_md.agents.names import agent_name
from agent_md.agents.parse_spec import parse_agent
from agent_md.agents.placeholders import render
from agent_md.agents.spec import ModelRef
from agent_md.errors import ConfigInvalid, UsageError

__all__ = ["NewAgent", "agent_text", "check_prompt", "places_of", "script_text"]

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_SPECIAL_WORDS = re.compile(r"(?:y|n|yes|no|on|off|true|false|null|none)", re.IGNORECASE)
_ARGUMENT = re.compile(r"\$(?:\$|(?P<place>ARGUMENTS(?![A-Za-z0-9_])|[1-9][0-9]{0,3}(?![0-9])))")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

_ASKS_MORE = "confirm: [file_edit, file_move]             # ask before these calls too\n"
_ASKS = "confirm: [file_write, file_edit, file_move] # ask before these calls\n"
_RULES = """\
# auto_approve: ["file_write(notes/*)"]     do not ask about these after all
# deny: ["file_delete(keep/*)"]             refuse these, and do not ask
"""
_BODY = """\
You are {name}, a careful assistant who works in one folder.

Do what the message asks, with your tools where they help. Ask when something is unclear. At the end say in a few words
what you did.
"""
_SCRIPT = """\
# What {name} says and does, played in this order: no model, no key. It is for trying; another `model` in
# {file} makes the agent think for itself.
conversations:
  - turns:
      - text: "I will write a short note. You are asked first."
        calls: [{{name: file_write, args: {{path: {path}, content: {content}}}}}]
      - text: "That is all. The note was written only if you said yes."
"""


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent to be written. `description` and `prompt` empty = none is given, and the prompt is a general one."""

    name: str
    model: ModelRef
    description: str = ""
    prompt: str = ""


def agent_text(new: NewAgent, defaults: Defaults) -> str:
    """The agent file: reading it gives back exactly what `new` says.

    Raises UsageError for what no agent file can say: a name that is none, characters that are no text, a prompt that
    needs a variable.
    """
    try:
        agent_name(new.name)
    except ValueError as error:
        raise UsageError(f"{new.name!r} cannot be the name of an agent: {error}") from None
    if new.prompt.strip():
        check_prompt(new.prompt)
    body = new.prompt if new.prompt.strip() else _BODY.format(name=new.name)
    lines = [f"name: {_scalar(new.name)}"]
    if new.description.strip():
        lines.append(f"description: {_scalar(new.description)}")
    address = "" if new.model.base_url is None else f", base_url: {_quoted(new.model.base_url)}"
    lines.append(f"model: {{provider: {new.model.provider}, name: {_scalar(new.model.name)}{address}}}")
    settings = "".join(f"{line}\n" for line in lines)
    asks = _ASKS if new.model.provider == "script" else _ASKS_MORE
    text = f"---\n{settings}{asks}{_RULES}---\n{body if body.endswith(chr(10)) else body + chr(10)}"
    _prove(text, new, body, defaults)
    return text


def check_prompt(prompt: str) -> None:
    """Raises UsageError for a prompt that names a variable, `${NAME}`: whether it is set is not known beforehand."""
    try:
        render(prompt, (), None, {}, ())
    except ConfigInvalid:
        names = ", ".join(dict.fromkeys(re.findall(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", prompt)))
        raise UsageError(
            f"the prompt has {names}, which stands for a variable of the environment; "
            f"write $${names[1:].partition(',')[0]} for the text itself"
        ) from None


def places_of(prompt: str) -> list[str]:
    """The places `$1`, `$ARGUMENTS`, … of a prompt that the arguments of a run fill, each once."""
    return list(dict.fromkeys(f"${found['place']}" for found in _ARGUMENT.finditer(prompt) if found["place"]))


def script_text(name: str, file: str) -> str:
    """A script for the model of the agent `name` in `file`: one call that writes a file, and a last word."""
    return _SCRIPT.format(
        name=name,
        file=file,
        path=_quoted(f"{name} note.txt".replace(" ", "-")),
        content=_quoted(f"Hello from {name}.\n"),
    )


def _prove(text: str, new: NewAgent, body: str, defaults: Defaults) -> None:
    """Whatever the texts are, a file that says something else is never given out."""
    try:
        spec = parse_agent(text.encode(), "agents/new.md", defaults)
    except UnicodeEncodeError:
        raise UsageError("the text holds bytes that are no UTF-8; write it in UTF-8") from None
    except UsageError as error:
        raise UsageError(f"an agent file cannot say this: {str(error).partition(': ')[2]}") from None
    wanted = (new.name, new.description if new.description.strip() else "", new.model, body.rstrip("\n"))
    assert (spec.name, spec.description, spec.model, spec.body.rstrip("\n")) == wanted


def _scalar(text: str) -> str:
    """The text as one YAML value, without quotes where it plainly needs none."""
    if _PLAIN.fullmatch(text) and not _SPECIAL_WORDS.fullmatch(text):
        return text
    return _quoted(text)


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() and char != "\ufeff" else f"\\U{ord(char):08X}"
