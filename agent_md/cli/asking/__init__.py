"""Asks the requests of an execution at a terminal, or answers them from options and scripts."""
