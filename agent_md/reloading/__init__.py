"""Hot reload: reads files again when they change in a running server, and reports the changes."""
