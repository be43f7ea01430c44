"""Tools of MCP servers: the servers' processes and connections, and their tools made to be planned and run like others."""
