"""From an AgentSpec to a compiled LangGraph graph: state, model node, gate, tool node."""
