"""Renders data for people, as pure functions from data to lines or renderables. Uses no terminal."""
