"""The terminal: key input, line and live output, signals."""
