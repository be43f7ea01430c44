"""From an agent file to an AgentSpec: frontmatter, fields, rules, registry. Imports no framework."""
