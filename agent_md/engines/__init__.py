"""Engines drive the executions of a store in the background; only ids cross their port."""
