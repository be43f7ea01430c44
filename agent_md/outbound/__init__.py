"""HTTP requests to addresses that others chose: an agent file, a client, a model."""
