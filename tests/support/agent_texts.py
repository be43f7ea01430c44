"""Agent files as tests write them."""

from __future__ import annotations

from agent_md.agents.defaults import Defaults
from agent_md.agents.parse_spec import parse_agent, read_agent
from agent_md.agents.spec import AgentSpec

FILE = "agents/cleaner.md"


def agent_file(settings: str, body: str = "You tidy up.\n") -> bytes:
    """The bytes of an agent file with these lines of settings."""
    return f"---\n{settings}\n---\n{body}".encode()


def spec_of(settings: str, defaults: Defaults | None = None) -> AgentSpec:
    """The spec of a file with these settings; raises AgentFileInvalid."""
    return parse_agent(agent_file(settings), FILE, defaults or Defaults())


def mistakes_in(settings: str, defaults: Defaults | None = None) -> str:
    """What is wrong with a file with these settings; "" if nothing is."""
    return read_agent(agent_file(settings), FILE, defaults or Defaults()).error
