"""Tools: the built-in ones, their sandbox, and custom tools from the workspace."""
