"""What people see, as pure functions from data to lines; no terminal here."""
