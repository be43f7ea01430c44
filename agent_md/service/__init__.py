"""The server of a workspace as a service of its user: unit files, and the service manager that loads them."""
