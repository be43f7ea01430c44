"""Source is parsed although another thread parses too."""

from __future__ import annotations

import ast

import pytest

from agent_md.tools import syntax_trees


def test_a_parse_that_met_another_one_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = ast.parse, [SystemError("AST constructor recursion depth mismatch")] * 3

    def parse(source: str) -> ast.Module:
        if failures:
            raise failures.pop()
        return real(source)

    monkeypatch.setattr(ast, "parse", parse)
    assert ast.dump(syntax_trees.syntax_tree("x = 1")) == ast.dump(real("x = 1"))
    assert failures == []
