"""What an execution is made of: frozen data and the rules on it. Imports no framework and does no I/O,
apart from the process that checks an answer against the schema of a request."""
