"""Driving or following one execution from a command."""
