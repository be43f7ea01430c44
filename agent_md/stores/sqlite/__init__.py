"""The store on SQLite: one file, any number of processes."""
