"""The terminal: how keys come in, how lines and live rows go out, signals."""
