"""Calls of `http_request` from the proposal to the request that arrives: which ask, what is approved, what a crash means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_md.errors import AnswerRefused, UsageError
from agent_md.executions.calls import Call
from agent_md.executions.states import CallOutcome, CallState, RequestKind, Status
from agent_md.graph.call_outcomes import CallEnd
from agent_md.graph.cut_off_calls import settle
from agent_md.tools.base import SettledState
from tests.support.driving import Workspace, call, turn
from tests.support.receiver import Receiver, close_early, receiver
from tests.support.requests import http_request

VALUE = "a-value-of-8-or-more"


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws", environ={"SHOP_LOGIN": VALUE})
    workspace.write("config.yaml", "http: {allow_hosts: [127.0.0.1]}")
    workspace.restart()
    yield workspace
    workspace.close()


def test_a_post_is_sent_once_and_only_as_it_was_approved(work: Workspace, there: Receiver) -> None:
    work.agent()
    work.script(turn(call("http_request", url=f"HTTP://127.1:{there.port}/a/../b", method="post", body="x")), "Done.")
    assert work.start().status is Status.WAITING
    request = work.the_request()
    assert (request.rule, request.tool_args) == (
        "requires_approval",
        {**_args(there, "/b"), "method": "POST", "body": "x"},
    )
    assert there.received == []
    work.restart()
    work.answer()
    work.check_succeeded()
    assert [(got.path, got.body) for got in there.received] == [("/b", b"x")]


def test_a_get_runs_at_once_and_a_rule_may_say_otherwise(work: Workspace, there: Receiver) -> None:
    work.agent(f"confirm: ['http_request(GET http://127.0.0.1:{there.port}/private*)']")
    work.script(turn(*(call("http_request", url=f"{there.url}/../{path}") for path in ("a", "%70rivate"))), "Done.")
    work.start()
    assert [got.path for got in there.received] == ["/a"]
    assert work.the_request().tool_args == {**_args(there, "/private"), "method": "GET"}


def test_rules_over_methods_and_addresses(work: Workspace, there: Receiver) -> None:
    work.agent(f"auto_approve: ['http_request(POST http://127.0.0.1:{there.port}/*)']\ndeny: ['http_request(PUT *)']")
    calls = [call("http_request", url=there.url, method=method) for method in ("POST", "PUT", "DELETE")]
    work.script(turn(*calls), "Done.")
    work.start()
    assert [found.outcome for found in work.calls()] == [CallOutcome.DONE, CallOutcome.REFUSED, None]
    assert len(there.received) == 1


def test_a_secret_without_hosts_asks_whatever_rules_and_grants_say(work: Workspace, there: Receiver) -> None:
    work.agent("auto_approve: '*'\nsecrets: [SHOP_LOGIN]")
    work.script(turn(call("http_request", url=there.url, headers={"X-Login": "${SHOP_LOGIN}"})), "Done.")
    assert work.start().status is Status.WAITING
    request = work.the_request()
    assert (request.kind, request.rule, request.offer) == (RequestKind.CONFIRM, "secrets", None)
    work.answer()
    work.check_succeeded()
    assert there.received[0].headers["x-login"] == VALUE


@pytest.mark.parametrize("text", [VALUE, "[secret SHOP_LOGIN]"])
def test_edited_arguments_hold_no_secret_and_no_mask(work: Workspace, there: Receiver, text: str) -> None:
    work.agent("secrets: [{name: SHOP_LOGIN, hosts: [127.0.0.1]}]")
    work.script(turn(call("http_request", url=there.url, method="POST")), "Done.")
    work.start()
    args = {**(work.the_request().tool_args or {}), "headers": {"X-Login": f"Bearer {text}"}}
    with pytest.raises(AnswerRefused, match="they hold the secret SHOP_LOGIN"):
        work.record(work.the_request(), {"approved": True, "args": args})
    args["headers"] = {"X-Login": "Bearer ${SHOP_LOGIN}"}
    work.answer(response={"approved": True, "args": args})
    assert there.received[0].headers["x-login"] == f"Bearer {VALUE}"


def test_edited_arguments_go_no_further_than_the_agent(work: Workspace, there: Receiver) -> None:
    work.agent("allow_hosts: [127.0.0.1]")
    work.script(turn(call("http_request", url=there.url, method="POST")), "Done.")
    work.start()
    for url, reason in (("https://other.invalid", "not one of the hosts"), ("http://[::1]/", "not one of the hosts")):
        with pytest.raises(AnswerRefused, match=reason):
            work.record(work.the_request(), {"approved": True, "args": {"url": url, "method": "POST"}})


def test_a_post_without_an_answer_may_have_run(work: Workspace, there: Receiver) -> None:
    there.behaviours = [close_early, close_early]
    work.agent("auto_approve: [http_request]")
    calls = [call("http_request", url=there.url, method=method) for method in ("POST", "GET")]
    work.script(turn(*calls), "Done.")
    work.start()
    assert [found.outcome for found in work.calls()] == [CallOutcome.UNKNOWN, CallOutcome.FAILED]
    assert "it may have run" in work.result(0)


@pytest.mark.parametrize(("method", "again"), [("GET", True), ("HEAD", True), ("POST", False), ("OPTIONS", False)])
def test_what_a_crash_means(work: Workspace, there: Receiver, method: str, again: bool) -> None:
    work.agent("auto_approve: [http_request]")
    work.script(turn(call("http_request", url=there.url, method=method)), "Done.")
    work.start()
    cut: Call = replace(work.calls()[0], state=CallState.STARTED, outcome=None, result=None)
    settled = settle(http_request(), cut)
    if again:
        assert settled is SettledState.NOT_DONE
    else:
        assert isinstance(settled, CallEnd)
        assert settled.outcome is CallOutcome.UNKNOWN


@pytest.mark.parametrize(
    ("value", "reason"),
    [(None, "the secret OTHER has no value; set it"), ("", "has no value"), ("1234567", "fewer than 8 characters")],
)
def test_a_secret_that_cannot_be_used_is_named_before_the_run(work: Workspace, value: str | None, reason: str) -> None:
    if value is not None:
        work.write(".env", f"OTHER={value}\n")
    work.agent("secrets: [OTHER]")
    with pytest.raises(UsageError, match=f"agents/worker.md: secrets: .*{reason}"):
        work.start()
    assert work.app.store.executions() == []


def test_the_model_is_told_what_it_may_use(work: Workspace) -> None:
    work.agent("secrets: [{name: SHOP_LOGIN, hosts: [shop.example]}]\nallow_hosts: [shop.example]")
    from datetime import UTC, datetime

    from agent_md.agents.system_prompt import briefing

    text = briefing(work.app.registry.get("worker").spec, datetime.now(UTC))
    assert "http_request reaches these hosts only: shop.example\n" in text
    assert "- ${SHOP_LOGIN}, for shop.example\n" in text


def _args(there: Receiver, path: str) -> dict[str, str]:
    return {"url": f"http://127.0.0.1:{there.port}{path}"}
