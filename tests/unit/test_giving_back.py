"""A process that is asked to give its work back."""

from __future__ import annotations

import threading

from agent_md.engines.hand_back import HandBack


def test_who_listens_is_told_once_with_the_first_reason() -> None:
    give_back, told = HandBack(), []
    with give_back.listening(told.append):
        assert (give_back.reason, told) == (None, [])
        asking = threading.Thread(target=give_back.ask, args=("32 threads are blocked",))
        asking.start()
        asking.join()
        give_back.ask("another one")
    assert told == ["32 threads are blocked"]
    assert give_back.reason == "32 threads are blocked"


def test_who_listens_later_is_told_at_once() -> None:
    give_back, told = HandBack(), []
    give_back.ask("32 threads are blocked")
    with give_back.listening(told.append):
        assert told == ["32 threads are blocked"]


def test_who_listens_no_more_is_told_nothing() -> None:
    give_back, told = HandBack(), []
    with give_back.listening(told.append):
        pass
    give_back.ask("32 threads are blocked")
    assert told == []
