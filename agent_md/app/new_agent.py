"""Chooses the path of a new agent file, and writes it atomically without overwriting another file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from agent_md.agents.names import name_key
from agent_md.agents.registry import Registry
from agent_md.agents.scaffold import NewAgent, agent_text, script_text
from agent_md.agents.spec import ModelRef
from agent_md.app.app import App
from agent_md.errors import AgentmdError, UsageError
from agent_md.models.factory import check_model, with_address
from agent_md.settings import Settings
from agent_md.system import SYSTEM
from agent_md.visible_text import one_line
from agent_md.workspace import NoWorkspace, find_workspace

__all__ = ["NOTHING", "check_free", "is_begun_by", "lacks", "trust_own", "workspace_of", "write_agent"]

NOTHING = "nothing was written"


@contextmanager
def workspace_of(given: Path | None, here: Path) -> Iterator[Path]:
    """The workspace that is named, the nearest one above `here`, else `here` becomes one; but never the home folder
    or `/`, which would lie open to the agents: instead of these it is `~/agentmd`, gone again if nothing comes of it."""
    home = Path.home()
    try:
        root, found_by = find_workspace(given, os.environ, here, home)
    except NoWorkspace:
        root, found_by = here, "~/agentmd"
    if found_by != "~/agentmd":
        yield root
        return
    root = home / "agentmd" if here in (home, Path(here.anchor)) else here
    begun = not root.exists()
    root.mkdir(exist_ok=True)
    try:
        yield root
    except BaseException:
        if begun:
            with suppress(OSError):
                root.rmdir()
        raise


def is_begun_by(settings: Settings) -> bool:
    """Whether there is nothing yet that says what runs in this workspace, so that all of it will be its user's own."""
    workspace = settings.workspace
    places = (
        settings.agents_dir,
        settings.state_dir,
        *(workspace / name for name in ("agents", "config.yaml", ".env")),
    )
    return not any(os.path.lexists(path) for path in places)


def trust_own(settings: Settings) -> None:
    """Records that the user trusts what was just written; where that cannot be recorded, they will be asked."""
    with suppress(AgentmdError):
        app = App(settings)
        app.trust.grant(app.trust.items())


def check_free(name: str, target: Path, registry: Registry, *, force: bool) -> None:
    """Raises UsageError if there is an agent of this name, or a file in its place that may not be replaced."""
    used = [(entry.spec.name, entry.spec.source_path) for entry in registry.agents]
    used += [(file.name or PurePosixPath(file.file).stem, file.file) for file in registry.invalid]
    for other, file in used:
        same_file = (registry.workspace / file) == target
        if name_key(other) == name_key(name) and not (same_file and force):
            replaceable = same_file and target.is_file()
            remedy = "--force replaces it" if replaceable else "take another name, or rename that one"
            raise UsageError(f'there is an agent "{other}" already, in {file}; {remedy}. {NOTHING.capitalize()}')
    if os.path.lexists(target) and not (force and target.is_file()):
        what = "exists; --force replaces it" if target.is_file() else "exists and is no file; remove it"
        raise UsageError(f"{target} {what}. {NOTHING.capitalize()}")


def lacks(model: ModelRef, settings: Settings) -> UsageError | None:
    """What is still to be done before the model answers; None = nothing."""
    environ = settings.environment()
    try:
        check_model(with_address(model, environ), environ, _scripts_dir(settings))
    except UsageError as error:
        return error
    return None


def write_agent(agent: NewAgent, target: Path, settings: Settings, *, force: bool) -> list[str]:
    """Writes the agent file, and its script if it has none yet, or nothing; says what."""
    text, shown = agent_text(agent, settings.defaults), _shown(target, settings)
    script = _scripts_dir(settings) / f"{agent.model.name}.yaml" if agent.model.provider == "script" else None
    begun = script is not None and _begin_script(script, agent, shown, settings)
    try:
        kept = _keep(target) if force and os.path.lexists(target) else None
        _write_file(target, text, replaces=kept is not None)
    except BaseException:
        if script is not None and begun:
            script.unlink(missing_ok=True)
        raise
    said = [f"Wrote {shown} in {settings.workspace}"]
    if kept is not None:
        said.append(f"The one before is {_shown(kept, settings)}")
    if script is not None:
        said.append(f"{'Wrote' if begun else 'There was'} {_shown(script, settings)}, which its model plays")
    return [one_line(line) for line in said]


def _begin_script(script: Path, agent: NewAgent, agent_file: str, settings: Settings) -> bool:
    """Whether the script was written: one that is there is taken, if it can be, and so is one of another name."""
    if agent.model.name == agent.name and not os.path.lexists(script):
        _write_file(script, script_text(agent.name, agent_file))
        return True
    if (problem := lacks(agent.model, settings)) is not None:
        raise UsageError(f"{problem}. {NOTHING.capitalize()}")
    return False


def _scripts_dir(settings: Settings) -> Path:
    return settings.agents_dir / "_config" / "scripts"


def _write_file(path: Path, text: str, *, replaces: bool = False) -> None:
    """Puts the whole file in its place at once. Without `replaces` it is an error if there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(draft, "x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            SYSTEM.sync(file.fileno())
        if replaces:
            draft.replace(path)
        else:
            os.link(draft, path)
    except FileExistsError:
        raise UsageError(f"{path} was made by somebody else just now; it was left as it is") from None
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk does not say whose it was
        raise
    finally:
        draft.unlink(missing_ok=True)


def _keep(path: Path) -> Path:
    """A second name for the file that is about to be replaced."""
    number = 1
    while True:
        kept = path.with_name(f"{path.name}.old{number}")
        try:
            os.link(path, kept, follow_symlinks=False)
        except FileExistsError:
            number += 1
        else:
            return kept


def _shown(path: Path, settings: Settings) -> str:
    return str(path.relative_to(settings.workspace) if path.is_relative_to(settings.workspace) else path)
