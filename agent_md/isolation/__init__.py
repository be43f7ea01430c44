"""Processes of code that is not trusted: under bubblewrap, with the files and hosts that they are given and no others."""
