"""Chats with an agent at a server."""
