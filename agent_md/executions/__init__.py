"""The data of executions, as frozen classes, and the rules on it. Imports no framework and does no I/O, apart from the
process that validates an answer with the schema of a request."""
