"""The HTTP interface: FastAPI on a Unix socket and optionally on TCP with a key. It has no logic and no state of its
own."""
