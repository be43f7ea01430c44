"""What an execution is made of: frozen data and the rules on it. Imports no framework and does no I/O."""
