"""A custom tool that asks a human in the middle of its work."""

from pathlib import Path

from langchain_core.tools import tool

from agent_md.sdk import context, request_choice, step


@tool
def settle_draft(path: str) -> str:
    """Asks the human what is to become of a draft, and does it."""
    draft = context().resolve_path(path)
    choice = request_choice(f"What is to become of {path}?", ["keep", "archive", "discard"])
    # Once answered, the tool runs again from its start; a step gives its first result again instead of acting twice.
    if choice == "archive":
        step(_archive, draft)
    elif choice == "discard":
        step(_discard, draft)
    return f"{path}: {choice}"


def _archive(draft: Path) -> None:
    folder = context().resolve_path("output/archive")
    folder.mkdir(exist_ok=True)
    draft.replace(folder / draft.name)


def _discard(draft: Path) -> None:
    draft.unlink()
