"""Starts executions without a human: schedules, file watches, incoming webhooks."""
