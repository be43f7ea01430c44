"""The loop that drives executions, and the decision about its next step."""
