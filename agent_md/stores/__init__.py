"""Storage: the SQLite store, the LangGraph checkpointer beside it, and the locks that tell which workers live."""
