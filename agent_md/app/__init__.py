"""One opened workspace: the composition root of the command line, the HTTP interface and the Python interface."""

from agent_md.app.app import App

__all__ = ["App"]
