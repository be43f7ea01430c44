"""The texts of the agent in a turn before it asks, as context for the question."""

from __future__ import annotations

from contextlib import suppress

from agent_md.client.sessions import Interrupt, SessionsClient
from agent_md.errors import RequestRefused, ServerUnreachable, UnknownSession

__all__ = ["TurnTexts"]


class TurnTexts:
    """The texts of one turn of a session, each given once."""

    def __init__(self, client: SessionsClient, session_id: str) -> None:
        self._client = client
        self._id = session_id
        self._given = 0
        """How many messages of the conversation were looked at."""
        self._known: set[str | int] = set()
        """Interrupts before which nothing is new: they were open when the texts were given."""

    async def before(self, interrupt: Interrupt) -> list[str]:
        """The texts that are new before this interrupt; none if the server does not tell, or is not reached."""
        if interrupt.id in self._known:
            return []
        with suppress(UnknownSession, RequestRefused, ServerUnreachable):
            said = await self._client.messages(self._id)
            begun = max((at for at, message in enumerate(said) if message.role == "user"), default=-1)
            new = said[max(self._given, begun + 1) :]
            texts = [message.text for message in new if message.role == "assistant" and message.text.strip()]
            still_open = {interrupt.id}
            if texts:  # if the turn has gone on, its answer may be among them
                still_open = {asked.id for asked in (await self._client.get(self._id)).interrupts}
            if interrupt.id in still_open:
                self._known |= still_open
                self._given = len(said)
                return texts
        return []
