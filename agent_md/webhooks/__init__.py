"""Webhooks: from stored events to signed requests that are repeated until they are received."""
