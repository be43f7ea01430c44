"""An image of a user's message reaches the model, whichever provider it has, and stays in the conversation."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.messages import messages_from_dict

from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.errors import UsageError
from agent_md.executions.chat_messages import chat_message, human_message, shown_text, stored_message
from agent_md.executions.images import image_block
from agent_md.models.factory import close_model, make_chat_model
from agent_md.models.history_format import for_model
from agent_md.models.images import refuse_images, takes_images
from agent_md.models.streaming import stream_answer
from tests.support.provider_server import containing
from tests.support.providers import KEY, KEYS, PROVIDERS, model_at, provider_server

pytestmark = pytest.mark.xdist_group("providers")  # their clients take seconds to import: once, in one process

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 30).decode()
STARTS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\0\0\0\0WEBP",
}


SEEING = {
    "google": "gemini-2.5-flash",
    "openai": "gpt-4o",
    "responses": "gpt-6-some",
    "anthropic": "claude-some",
    "ollama": "llava",
    "local": "qwen2-vl",
}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_it_is_sent(provider: str) -> None:
    stored = human_message({"role": "user", "base64_image": PNG}, "What is this?", "human:1")
    with provider_server(provider, [containing("A dot.")]) as server:
        ref = replace(model_at(provider, server.url), name=SEEING[provider])
        model = make_chat_model(ref, RunSettings(), environ={KEYS[provider]: KEY}, scripts_dir=Path("none"))
        try:
            await stream_answer(model, for_model(messages_from_dict([stored]), ref), lambda text: None)
        finally:
            await close_model(model)
        (body,) = server.bodies
    said = json.dumps(body)
    assert PNG.rstrip("=") in said.replace("\\/", "/")
    assert "What is this?" in said


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("form", ["%s", "data:image/png;base64,%s", "%.8s\n%s"])
def test_what_it_is_is_read_from_the_image(kind: str, form: str) -> None:
    text = base64.b64encode(STARTS[kind] + b"rest").decode()
    given = form % text if "\n" not in form else f"{text[:8]}\n{text[8:]}"
    assert image_block(given) == {"type": "image", "base64": text, "mime_type": kind}


@pytest.mark.parametrize(
    "text", ["", "é", "no base64!", "data:image/png,abc", "http://example.com/a.png", "AAAA", PNG[:-1]]
)
def test_what_is_no_image_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="image"):
        image_block(text)


def test_clients_get_back_what_they_gave() -> None:
    message = {"role": "user", "content": "See", "base64_image": PNG, "user_params": {"a": 1}}
    for stored in (stored_message(message, "m"), human_message(message, "See", "m")):
        assert stored["data"]["content"] == [{"type": "text", "text": "See"}, image_block(PNG)]
        assert chat_message(stored) == message
        assert shown_text(stored["data"]["content"]) == "See\n[image/png]"


def test_a_system_message_that_begins_a_turn_says_where_it_comes_from() -> None:
    stored = human_message({"role": "system", "content": "The user has left."}, "The user has left.", "m")
    (message,) = messages_from_dict([stored])
    assert message.type == "human"
    assert message.text == "This message comes from the system, not from the user:\nThe user has left."
    assert chat_message(stored) == {"role": "system", "content": "The user has left."}


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        *(("google/gemini-2.5-flash", True), ("google/gemini-embedding-001", False)),
        *(("google/gemini-2.5-pro-preview-tts", False), ("anthropic/claude-sonnet-4-5", True)),
        *(("anthropic/claude-2.1", False), ("anthropic/claude-3-haiku-20240307", True)),
        *(("openai/gpt-4o-mini", True), ("openai/gpt-4.1", True), ("openai/gpt-5", True), ("openai/o3", True)),
        *(
            ("openai/gpt-3.5-turbo", False),
            ("openai/gpt-4", False),
            ("openai/o3-mini", False),
            ("openai/o1-mini", False),
        ),
        *(("ollama/llava:13b", True), ("ollama/llama3.2-vision", True), ("ollama/qwen2.5vl:7b", True)),
        *(("ollama/llama3.2", False), ("local/qwen2.5-coder", False), ("local/Qwen/Qwen2-VL-7B", True)),
        *(("ollama/gemma3:4b", True), ("ollama/gemma3n", False), ("script/x", True)),
    ],
)
def test_which_models_take_images(model: str, takes: bool) -> None:
    provider, _, name = model.partition("/")
    assert takes_images(ModelRef(provider, name)) is takes
    if takes:
        refuse_images(ModelRef(provider, name), [{"base64_image": PNG}])
        return
    refuse_images(ModelRef(provider, name), [{"content": "text", "base64_image": None}])
    with pytest.raises(UsageError, match=f"{model} is not known to take images"):
        refuse_images(ModelRef(provider, name), [{"content": "text"}, {"base64_image": PNG}])


@pytest.mark.parametrize("provider", ["openai", "google", "anthropic", "ollama"])
def test_a_conversation_that_goes_on_with_a_model_that_takes_none_says_where_one_was(provider: str) -> None:
    """Its agent had another model when the image came; nothing is dropped in silence, and nothing is refused."""
    history = messages_from_dict([human_message({"role": "user", "base64_image": PNG}, "What is this?", "human:1")])
    (sent,) = for_model(history, ModelRef(provider, "gpt-3.5-turbo"))
    assert sent.content == [
        {"type": "text", "text": "What is this?"},
        {"type": "text", "text": "[image/png: it cannot be shown to this model]"},
    ]
    assert for_model(history, ModelRef(provider, SEEING[provider])) == history
