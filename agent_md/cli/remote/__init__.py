"""Clients of a server: chats over the sessions interface, and requests to the workspace's own server."""
