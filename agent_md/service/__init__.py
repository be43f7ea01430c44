"""The server of a workspace as a user service: unit files, and the service manager that loads them."""
