"""Processes for untrusted code: run by bubblewrap, with access only to given files and hosts."""
