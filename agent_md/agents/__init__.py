"""Reads agent files into AgentSpecs: frontmatter, fields, rules, registry. Imports no framework."""
