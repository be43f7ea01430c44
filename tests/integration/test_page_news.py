"""What open pages are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_md.web.feed import Feed, News
from tests.support.pages import WRITER, ServedPages, served_pages
from tests.support.scenes import approve, parked


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedPages]:
    (tmp_path / "agents").mkdir()
    with served_pages(tmp_path) as pages:
        following = asyncio.create_task(pages.hub.run())
        yield pages
        pages.context.finish()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def told(news: News, name: str) -> dict[str, Any]:
    """The next message of this name."""
    while True:
        lines = (await news.next(5)).decode().splitlines()
        assert f"event: {name}" in lines or lines[0].startswith("event: "), lines
        if f"event: {name}" in lines:
            data: dict[str, Any] = json.loads(next(line for line in lines if line.startswith("data: "))[6:])
            return data


async def test_what_opens_and_who_decided_it(served: ServedPages) -> None:
    feed = Feed(served.context)
    with feed.subscribed() as one, feed.subscribed() as other:
        assert await told(one, "count") == {"open": 0}
        await asyncio.sleep(0)  # the feed begins
        execution, [request] = parked(served.app.store, spec=WRITER, agent="<b>writer")
        served.hub.stored()
        for news in (one, other):
            opened = await told(news, "opened")
            assert (opened["id"], opened["open"]) == (request, 1)
            assert "&lt;b&gt;writer" in opened["row"]
            assert (await told(news, "touched"))["executions"] == [execution.id]
        served.app.store.record_answers([approve(request)], by="cli:eve")
        served.hub.stored()
        closed = await told(one, "closed")
        assert (closed["id"], closed["text"], closed["open"]) == (request, "approved by cli:eve", 0)


async def test_who_reads_nothing_is_told_to_look_again() -> None:
    news = News()
    for number in range(1000):
        news.tell(f"event: x\ndata: {number}\n\n".encode())
    assert await told(news, "resync") == {}
