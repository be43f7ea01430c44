"""Source that several threads parse at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from agent_md.tools.syntax_trees import syntax_tree


def test_many_threads_parse_at_once() -> None:
    source = "\n".join(f"def f{n}(a):\n    return [x for x in (a, {n}) if x + (a * {n})]" for n in range(300))
    with ThreadPoolExecutor(8) as threads:
        trees = list(threads.map(syntax_tree, [source] * 16))
    assert {len(tree.body) for tree in trees} == {300}
