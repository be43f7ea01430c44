"""The HTTP face: FastAPI on a Unix socket and, when asked, on TCP with a key. It holds no logic and no state."""
