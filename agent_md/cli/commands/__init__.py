"""The commands, one file a family."""
