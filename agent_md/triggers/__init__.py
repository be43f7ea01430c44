"""What starts executions with nobody there: schedules and file watches."""
