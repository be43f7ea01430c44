"""The program that makes Markdown of one page; `html_markdown.markdown_of` starts it.

A process of its own, because a page may be made to keep a converter busy without end, or to exhaust its stack. It gets the
page on its standard input and gives the Markdown on its standard output. It imports nothing of this package, has nothing of
its environment, and never uses the network.
"""

from __future__ import annotations

import resource
import sys

CPU_S = 10
MEMORY = 1024 * 1024 * 1024
_NESTED = 500
"""How deep elements may be within each other; what is deeper is left out."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from html_to_markdown import ConversionOptions, convert

    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    options = ConversionOptions(extract_metadata=True, max_depth=_NESTED)
    sys.stdout.buffer.write((convert(page, options).content or "").encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
