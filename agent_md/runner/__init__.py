"""The one loop that drives executions, and what decides its next step."""
