"""HTTP requests to addresses that an agent file, a client or a model chose."""
