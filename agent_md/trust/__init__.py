"""Which workspaces their user trusts, and with what: an agent of another one does not run."""
