"""The pure parts of webhooks: signatures, the times of attempts, targets, bodies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest

from agent_md.agents.spec import AgentSpec, ModelRef, NotifyTarget
from agent_md.errors import UsageError
from agent_md.executions.deliveries import Delivery, HookEvent, event_id_of
from agent_md.executions.execution import HookTarget
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import EventType, Status
from agent_md.webhooks.body import body_of, ids_in
from agent_md.webhooks.retry_delays import GIVE_UP_AFTER_S, next_attempt
from agent_md.webhooks.signing import headers_for, key_of
from agent_md.webhooks.targets import check_target, filled, lane_of, named_targets, notify_target
from agent_md.webhooks.warnings import target_warnings
from tests.support.samples import an_event, an_execution

SPEC = AgentSpec(
    "writer",
    "Write.",
    ModelRef("script", "m"),
    notify=(
        NotifyTarget("https://a.example/x", "${TOKEN}", "${SECRET}"),
        NotifyTarget("https://b.example/x", events=("turn.failed",)),
    ),
)


class TestWhatReachesNobody:
    @pytest.mark.parametrize(
        ("environ", "said"),
        [
            ({"TOKEN": "t", "SECRET": "s"}, []),
            ({"TOKEN": "t"}, ["the variable SECRET of `notify` is not set"]),
            (
                {"SECRET": ""},
                ["the variable TOKEN of `notify` is not set", "the variable SECRET of `notify` is not set"],
            ),
            ({"TOKEN": "a b", "SECRET": "whsec_!"}, ["has characters that a header cannot carry", "no Base64 behind"]),
        ],
    )
    def test_a_token_or_a_secret_that_is_of_no_use(self, environ: dict[str, str], said: list[str]) -> None:
        found = target_warnings(SPEC, environ, ())
        assert len(found) == len(said)
        assert all(part in text for part, text in zip(said, found, strict=True))
        assert all("nothing is sent to a.example" in text and "a b" not in text for text in found)

    @pytest.mark.parametrize(
        ("host", "allowed", "reached"),
        [
            ("a.example", (), True),
            ("8.8.8.8", (), True),
            ("10.0.0.5", (), False),
            ("10.0.0.5", ("10.0.0.5",), True),
            ("10.0.0.5", ("10.0.0.6",), False),
            ("[::1]", (), False),
            ("[::1]", ("0:0:0:0:0:0:0:1",), True),
            ("localhost", (), False),
            ("localhost", ("localhost",), True),
        ],
    )
    def test_an_address_that_is_private(self, host: str, allowed: tuple[str, ...], *, reached: bool) -> None:
        spec = replace(SPEC, notify=(NotifyTarget(f"http://{host}:80/x"), NotifyTarget(f"http://{host}/y")))
        assert (target_warnings(spec, {}, allowed) == []) is reached
        assert len(target_warnings(spec, {}, allowed)) <= 1


class TestSigning:
    def test_a_published_example_of_the_convention(self) -> None:
        headers = headers_for(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            b'{"test": 2432232314}',
            1614265330,
            token=None,
            secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        )
        assert headers == {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        }

    def test_a_secret_without_the_prefix_is_the_key_itself(self) -> None:
        signed = headers_for("evt_1", b"{}", 7, token=None, secret="schlüssel")["webhook-signature"]
        digest = hmac.new("schlüssel".encode(), b"evt_1.7.{}", hashlib.sha256).digest()
        assert signed == f"v1,{base64.b64encode(digest).decode()}"

    def test_a_token(self) -> None:
        headers = headers_for("evt_1", b"{}", 7, token="abc", secret=None)
        assert headers["Authorization"] == "Bearer abc"
        assert "webhook-signature" not in headers

    @pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "schlüssel", "a\x00"])
    def test_a_token_that_no_header_can_carry(self, token: str) -> None:
        with pytest.raises(ValueError, match="token") as refused:
            headers_for("evt_1", b"{}", 7, token=token, secret=None)
        assert not token or token not in str(refused.value)

    @pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "whsec_YQ"])
    def test_a_secret_that_is_no_key(self, secret: str) -> None:
        with pytest.raises(ValueError, match="secret"):
            key_of(secret)


def a_delivery(attempts: int, **fields: Any) -> Delivery:
    given: dict[str, Any] = {
        "event_id": "evt_1",
        "event": HookEvent.COMPLETED,
        "execution_id": ExecutionId(1),
        "target": "notify:0",
        "lane": "https://a.example:443",
        "event_at": 0.0,
        "due_at": 0.0,
        "first_at": 1000.0,
        "body": "{}",
    }
    return Delivery(**(given | fields), attempts=attempts)


class TestSchedule:
    def when(self, attempts: int, now: float = 1000.0, chance: float = 0.5, after: float | None = None) -> float | None:
        return next_attempt(a_delivery(attempts), now, retry_after=after, chance=chance)

    def test_it_is_tried_ever_more_rarely(self) -> None:
        waits = [(self.when(attempts) or 0) - 1000 for attempts in range(1, 12)]
        assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
        assert self.when(10**9) == 1300

    def test_chance_spreads_it(self) -> None:
        assert (self.when(9, chance=0.0), self.when(9, chance=1.0)) == (1225, 1375)

    def test_the_last_attempt_is_at_the_end_of_the_hour(self) -> None:
        end = 1000 + GIVE_UP_AFTER_S
        assert self.when(15, end - 10) == end
        assert self.when(15, end) is None
        assert self.when(15, end + 7200) is None

    def test_a_whole_hour_of_failures(self) -> None:
        now, attempts = 1000.0, 0
        while True:
            attempts += 1
            at = self.when(attempts, now)
            if at is None:
                break
            assert at > now
            now = at
        assert now == 1000 + GIVE_UP_AFTER_S
        assert 15 <= attempts <= 25

    def test_the_receiver_may_ask_for_more_time_within_the_hour(self) -> None:
        assert self.when(1, after=60) == 1060
        assert self.when(9, after=60) == 1300
        assert self.when(1, after=10**9) == 1000 + GIVE_UP_AFTER_S


class TestTargets:
    def test_who_is_told(self) -> None:
        hook = HookTarget("https://c.example/")
        assert list(named_targets(SPEC, None, HookEvent.COMPLETED)) == [("notify:0", "https://a.example/x")]
        assert list(named_targets(SPEC, hook, HookEvent.FAILED)) == [
            ("notify:0", "https://a.example/x"),
            ("notify:1", "https://b.example/x"),
            ("message", "https://c.example/"),
        ]
        assert notify_target(SPEC, "notify:1") == SPEC.notify[1]

    def test_placeholders_are_filled(self) -> None:
        target = filled(SPEC.notify[0], {"TOKEN": "t", "SECRET": "s"})
        assert target == HookTarget("https://a.example/x", "t", "s")
        assert filled(SPEC.notify[1], {}) == HookTarget("https://b.example/x")

    @pytest.mark.parametrize("environment", [{}, {"TOKEN": "t"}, {"TOKEN": "t", "SECRET": ""}])
    def test_a_variable_that_is_not_set(self, environment: dict[str, str]) -> None:
        with pytest.raises(ValueError, match=r"the variable (TOKEN|SECRET) of"):
            filled(SPEC.notify[0], environment)

    @pytest.mark.parametrize(
        ("url", "lane"),
        [
            ("https://a.example/secret?key=1", "https://a.example:443"),
            ("http://A.example:8080", "http://a.example:8080"),
            ("http://[::1]/x", "http://[::1]:80"),
            ("http://a\x9b31m\u202e.example", r"http://a\x9b31m\u202e.example:80"),
        ],
    )
    def test_a_lane_is_the_part_that_is_no_secret(self, url: str, lane: str) -> None:
        assert lane_of(url) == lane

    def test_a_client_gives_one_that_can_be_used(self) -> None:
        target = HookTarget("https://a.example/x", "abc", "whsec_YWJj", include_messages=True)
        assert check_target(target) == target

    @pytest.mark.parametrize(
        "target",
        [
            *(HookTarget("ftp://a.example"), HookTarget("a.example"), HookTarget("https://u:hunter2@a.example/")),
            *(
                HookTarget("https://a.example/", token="hunter2 x"),
                HookTarget("https://a.example/", secret="whsec_hunter2"),
            ),
            HookTarget("https://a.example/" + "x" * 2048),
            HookTarget("https://a\x9b31m.example/hunter2"),
        ],
        ids=["scheme", "no scheme", "password", "token", "secret", "long", "no host's name"],
    )
    def test_one_that_cannot_be_used_is_refused_without_being_shown(self, target: HookTarget) -> None:
        with pytest.raises(UsageError, match="webhook") as refused:
            check_target(target)
        assert "hunter2" not in str(refused.value)


class TestBody:
    def body(self, event: HookEvent, execution: Any, **more: Any) -> Any:
        text = body_of(event, "evt_1", execution, **more)
        assert text.isascii()
        return json.loads(text)

    def test_completed(self) -> None:
        done = an_execution(status=Status.SUCCESS, output="Done.", session_id="s")
        said = [{"role": "user", "content": "Hi \u202e"}]
        assert self.body(HookEvent.COMPLETED, done, messages=said) == {
            "event": "turn.completed",
            "event_id": "evt_1",
            "agent_id": "cleaner",
            "execution_id": 42,
            "session_id": "s",
            "status": "idle",
            "response": {"role": "assistant", "content": "Done."},
            "messages": said,
        }

    def test_completed_with_a_text_that_was_cut(self) -> None:
        done = an_execution(status=Status.SUCCESS, output="Once", cut="length")
        assert self.body(HookEvent.COMPLETED, done)["cut"] == "length"
        assert "cut" not in self.body(HookEvent.COMPLETED, an_execution(status=Status.SUCCESS, output="Once."))

    def test_failed(self) -> None:
        for error, told in (("No key.", "No key."), (None, "the turn ended as timeout")):
            assert self.body(HookEvent.FAILED, an_execution(status=Status.TIMEOUT, error=error, output="x")) == {
                "event": "turn.failed",
                "event_id": "evt_1",
                "agent_id": "cleaner",
                "execution_id": 42,
                "session_id": None,
                "status": "error",
                "error": told,
            }

    def test_interrupt(self) -> None:
        asked = [{"interrupt_id": "r1", "type": "custom", "payload": {}}]
        text = body_of(HookEvent.INTERRUPT, "evt_1", an_execution(), interrupts=asked)
        assert json.loads(text) == {
            "event": "interrupt.requested",
            "event_id": "evt_1",
            "agent_id": "cleaner",
            "execution_id": 42,
            "session_id": None,
            "status": "interrupted",
            "interrupts": asked,
        }
        assert ids_in(text) == {"r1"}


def test_an_event_id_is_of_one_event_and_one_target() -> None:
    event = an_event(EventType.COMPLETE, seq=1)
    ids = {
        event_id_of(event, "notify:0"),
        event_id_of(event, "notify:1"),
        event_id_of(an_event(EventType.COMPLETE, seq=2), "notify:0"),
    }
    assert len(ids) == 3
    assert event_id_of(an_event(EventType.COMPLETE, seq=1), "notify:0") in ids
