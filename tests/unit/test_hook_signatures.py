"""Deliveries to agents: a signature holds for one body, one secret and, with Standard Webhooks, one id and five minutes."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.agents.spec import Trigger
from agent_md.errors import HookUnsigned
from agent_md.webhooks.incoming import Signed, check_signature, hook_secret
from agent_md.webhooks.signing import headers_for
from tests.support.hooks import SECRET, github, standard

BODY = '{"action": "opened", "title": "Grüße"}\n'.encode()
BASE64_SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef").decode()


def checked(headers: Mapping[str, str], body: bytes = BODY, secret: str = SECRET, *more: tuple[str, str]) -> Signed:
    """What a request with these headers is known by; `more` are headers that come again."""
    pairs = [(name.lower(), value) for name, value in (*headers.items(), *more)]
    return check_signature(lambda name: [value for key, value in pairs if key == name.lower()], body, secret)


def refusal(headers: Mapping[str, str], body: bytes = BODY, secret: str = SECRET, *more: tuple[str, str]) -> str:
    with pytest.raises(HookUnsigned) as refused:
        checked(headers, body, secret, *more)
    text = str(refused.value)
    assert SECRET not in text
    right = github(body, secret=secret)["X-Hub-Signature-256"].removeprefix("sha256=")
    assert right not in text
    return text


class TestStandardWebhooks:
    @pytest.mark.parametrize("body", [BODY, b"", b"\x00", "\ufeffx\r\n".encode()])
    def test_what_holds(self, body: bytes) -> None:
        signed = checked(standard(body, "msg_1"), body)
        assert (signed.convention, signed.id) == ("Standard Webhooks", "msg_1")
        assert re.fullmatch("[0-9a-f]{64}", signed.signature)

    def test_what_we_send_ourselves_holds(self) -> None:
        headers = standard(BODY, "msg_1")
        ours = headers_for("msg_1", BODY, int(headers["webhook-timestamp"]), token=None, secret=SECRET)
        assert ours == headers

    def test_a_key_behind_whsec(self) -> None:
        assert checked(standard(BODY, "msg_1", key=b"0123456789abcdef"), secret=BASE64_SECRET).id == "msg_1"
        assert "does not hold" in refusal(standard(BODY, "msg_1", key=BASE64_SECRET.encode()), secret=BASE64_SECRET)

    def test_one_of_several_signatures(self) -> None:
        headers = standard(BODY, "msg_1")
        right = headers["webhook-signature"]
        wrong = standard(BODY, "msg_1", key=b"old")["webhook-signature"]
        for several in (
            f"{wrong} {right}",
            f"{right} {wrong}",
            f"v1a,{right[3:]} {right}",
            f"v1 v1,!!! {right} v2,x",
            f"  {right}  ",
        ):
            assert checked({**headers, "webhook-signature": several}) == checked(headers)
        for none in (
            wrong,
            f"{wrong} {wrong}",
            f"v1a,{right[3:]}",
            right[3:],
            "v1,",
            "v1",
            " ",
            right.replace("v1", "v2"),
        ):
            assert refusal({**headers, "webhook-signature": none})

    def test_the_form_of_the_header_makes_no_other_delivery(self) -> None:
        """The last character of Base64 has bits that say nothing."""
        headers = standard(BODY, "msg_1")
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        given_one = headers["webhook-signature"]
        last = alphabet.index(given_one[-2])
        other = given_one[:-2] + alphabet[last ^ 1] + "="
        assert checked({**headers, "webhook-signature": other}).signature == checked(headers).signature

    @pytest.mark.parametrize("age", [-290, 290])
    def test_within_five_minutes(self, age: float) -> None:
        assert checked(standard(BODY, "msg_1", age=age)).id == "msg_1"

    @pytest.mark.parametrize(("age", "word"), [(310, "old"), (-310, "new"), (1e9, "old")])
    def test_not_within_five_minutes(self, age: float, word: str) -> None:
        assert word in refusal(standard(BODY, "msg_1", age=age))

    @pytest.mark.parametrize("at", ["", "x", "1e9", "-5", "1.5", "nan", "inf", "9" * 12, "9" * 400, "１７", " 17"])
    def test_a_time_that_is_none(self, at: str) -> None:
        assert refusal({**standard(BODY, "msg_1"), "webhook-timestamp": at})

    @pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
    def test_each_header_is_needed_and_once(self, name: str) -> None:
        headers = standard(BODY, "msg_1")
        assert "2 times" in refusal(headers, BODY, SECRET, (name, headers[name]))
        headers.pop(name)
        assert "missing" in (text := refusal(headers)) or "not signed" in text

    @pytest.mark.parametrize(
        "changed",
        [
            {"webhook-id": "msg_2"},
            {"webhook-id": "msg_1 "},
            {"webhook-id": ""},
            {"webhook-id": "m" * 256},
            {"webhook-id": "Grüße"},
        ],
    )
    def test_the_id_is_signed(self, changed: dict[str, str]) -> None:
        assert refusal(standard(BODY, "msg_1") | changed)

    def test_the_time_is_signed(self) -> None:
        headers = standard(BODY, "msg_1")
        assert refusal({**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) - 1)})

    def test_a_body_that_is_no_text(self) -> None:
        assert "not UTF-8" in refusal(standard(b"\xff\xfe", "msg_1"), b"\xff\xfe")


class TestGitHub:
    @pytest.mark.parametrize("body", [BODY, b"", b"\xff\xfe\x00"])
    @pytest.mark.parametrize("delivery", ["72d3162e-cc78-11e3-81ab-4c9367dc0958", None])
    def test_what_holds(self, body: bytes, delivery: str | None) -> None:
        signed = checked(github(body, delivery), body)
        assert signed == Signed("GitHub", github(body)["X-Hub-Signature-256"].removeprefix("sha256="), delivery)

    def test_a_published_example_of_github(self) -> None:
        headers = {"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
        assert checked(headers, b"Hello, World!", "It's a Secret to Everybody").convention == "GitHub"

    def test_the_secret_is_the_key_as_it_is_written(self) -> None:
        assert checked(github(BODY, secret=BASE64_SECRET), secret=BASE64_SECRET).convention == "GitHub"
        assert checked(github(BODY, secret="schlüssel"), secret="schlüssel").convention == "GitHub"

    @pytest.mark.parametrize(
        "form", ["{}", "sha1={}", "sha256={} ", "SHA256={}", "sha256=", "sha256=00", "sha256={}0", "", "sha256=é"]
    )
    def test_another_form_of_the_header(self, form: str) -> None:
        digest = github(BODY)["X-Hub-Signature-256"].removeprefix("sha256=")
        assert refusal({"X-Hub-Signature-256": form.format(digest)})

    @pytest.mark.parametrize("name", ["X-Hub-Signature-256", "X-GitHub-Delivery"])
    def test_each_header_comes_once(self, name: str) -> None:
        headers = github(BODY, "1")
        assert "2 times" in refusal(headers, BODY, SECRET, (name, headers[name]))

    @pytest.mark.parametrize("delivery", ["", "x" * 256, "a\nb", "ü"])
    def test_an_id_that_is_none(self, delivery: str) -> None:
        assert refusal(github(BODY, delivery))


class TestBoth:
    @pytest.mark.parametrize("sign", [lambda body: standard(body, "msg_1"), github])
    @given(data=st.data())
    def test_another_body(self, sign: object, data: st.DataObject) -> None:
        headers = sign(BODY)  # type: ignore[operator]
        at = data.draw(st.integers(0, len(BODY) - 1))
        byte = data.draw(st.integers(0, 127).filter(lambda value: value != BODY[at]))
        for other in (BODY[:at] + bytes([byte]) + BODY[at + 1 :], BODY[:at], BODY + b"\n", BODY[1:]):
            with pytest.raises(HookUnsigned):
                checked(headers, other)

    @pytest.mark.parametrize("secret", ["Correct horse battery staple", SECRET + " ", "x", BASE64_SECRET])
    def test_another_secret(self, secret: str) -> None:
        assert refusal(standard(BODY, "msg_1"), secret=secret)
        assert refusal(github(BODY), secret=secret)

    def test_no_signature(self) -> None:
        for headers in ({}, {"webhook-id": "1", "webhook-timestamp": "1"}, {"X-GitHub-Delivery": "1"}):
            assert "not signed" in refusal(headers)
        assert refusal({"X-Hub-Signature": "sha1=00"})

    def test_what_was_signed_for_one_convention_is_none_of_the_other(self) -> None:
        headers = standard(BODY, "msg_1")
        body = f"msg_1.{headers['webhook-timestamp']}.".encode() + BODY
        turned = base64.b64decode(headers["webhook-signature"][3:]).hex()
        assert "is what Standard Webhooks signs" in refusal({"X-Hub-Signature-256": f"sha256={turned}"}, body)

    def test_a_wrong_signature_of_one_is_not_made_good_by_the_other(self) -> None:
        headers = {**standard(BODY, "msg_1", key=b"other"), **github(BODY)}
        assert refusal(headers)


class TestSecret:
    def test_it_is_that_of_the_variable(self) -> None:
        assert hook_secret(Trigger("webhook", secret="${S}"), {"S": SECRET}) == SECRET

    @pytest.mark.parametrize(
        ("environment", "text"),
        [
            ({}, "the variable S of `trigger.secret` is not set"),
            ({"S": ""}, "the variable S of `trigger.secret` is not set"),
            ({"S": "whsec_"}, "the secret is empty"),
            ({"S": "whsec_sesame!"}, "no Base64 behind whsec_"),
        ],
    )
    def test_one_that_cannot_be_used(self, environment: dict[str, str], text: str) -> None:
        with pytest.raises(ValueError, match=text) as refused:
            hook_secret(Trigger("webhook", secret="${S}"), environment)
        assert "sesame" not in str(refused.value)


@pytest.mark.parametrize("delivery", ["msg_old", "7d3f-0.a:b", "bXNnLTE="])
def test_what_standard_webhooks_signed_is_no_delivery_of_github(delivery: str) -> None:
    """The key is the same, and in GitHub's form the time of the delivery would count for nothing."""
    signed = f"{delivery}.1790000000.".encode() + BODY
    assert "is what Standard Webhooks signs" in refusal(github(signed), signed)


@pytest.mark.parametrize("body", [b'{"v":"1.1790000000.3"}', b"payload=%7B%22v%22%3A%221.1790000000.3", b"", b"\xff"])
def test_what_github_sends_is_not_taken_for_it(body: bytes) -> None:
    assert checked(github(body), body).convention == "GitHub"
