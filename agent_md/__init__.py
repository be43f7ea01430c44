"""agentmd: a durable runner for AI agents written as markdown."""

__version__ = "0.1.0"
