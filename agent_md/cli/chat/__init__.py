"""Conversations at the terminal."""
