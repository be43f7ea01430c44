"""What shells complete on a command line that is being typed."""
