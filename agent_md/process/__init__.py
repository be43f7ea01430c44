"""The log and the standard streams of a process."""
