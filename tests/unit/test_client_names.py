"""Who answers, as a client says it, is never taken for one who answers for agentmd itself."""

import pytest

from agent_md.errors import AnswerRefused
from agent_md.executions.answers import client_name


@pytest.mark.parametrize(
    "name", ["ann", "Ann B.", "ann@example.com", "ann:home", "cliff", "policy maker", "\x1b[2Jann"]
)
def test_a_name_is_kept_behind_its_channel(name: str) -> None:
    assert client_name("http", name) == f"http:{name}"


@pytest.mark.parametrize(
    "name",
    [
        *("timeout", "policy", "api", "cli", "cli:ann", "http:ann", "web:ann", "python:ann", "agentmd", "system"),
        *("Timeout", " policy ", "CLI:ann", "\uff43\uff4c\uff49:ann", "ti\u200bmeout", "cli :ann", "api:"),
    ],
)
def test_a_name_of_ours_is_refused_and_said_so(name: str) -> None:
    with pytest.raises(AnswerRefused, match="recorded as http:NAME"):
        client_name("http", name)


def test_a_blank_name_is_refused() -> None:
    with pytest.raises(AnswerRefused, match="`by` is empty"):
        client_name("http", " ")
