"""The web page of a server: what waits for people, and their answers. Server-rendered; works without JavaScript."""
