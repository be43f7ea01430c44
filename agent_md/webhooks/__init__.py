"""Webhooks: derives signed requests from stored events, and repeats them until they are received."""
