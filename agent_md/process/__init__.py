"""What a process of agentmd does with its log and its standard streams."""
