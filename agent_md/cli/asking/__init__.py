"""The questions of an execution, asked at a terminal or answered from flags and scripts."""
