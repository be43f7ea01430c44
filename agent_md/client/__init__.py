"""Clients of servers: sessions over HTTP, and requests to the server of a workspace."""
