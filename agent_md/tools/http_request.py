"""`http_request`: one request to an address that the agent may reach, with secrets that only that address gets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_md.agents.effects import NO_EFFECTS, Effects
from agent_md.agents.rules import decide
from agent_md.agents.spec import AgentSpec, Secret
from agent_md.errors import AddressRefused, ToolError, UsageError
from agent_md.executions.requests import CallEffect
from agent_md.executions.states import Decision
from agent_md.outbound.addresses import host_allowed, plain_host
from agent_md.outbound.urls import PLACEHOLDER, fill_query, host_of
from agent_md.redaction import Redactor
from agent_md.tools.arguments import action_digest
from agent_md.tools.base import CutOff, Plan, Settled, SettledState, ToolOptions
from agent_md.tools.http_arguments import CONTROL, FREE_METHODS, PARAMETERS, checked_arguments, is_free, secrets_in
from agent_md.tools.threads import ToolThreads

if TYPE_CHECKING:
    import httpx

    from agent_md.outbound.fetch import Limits, Outgoing

__all__ = ["HttpAccess", "HttpRequest"]


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """What a workspace gives to the requests of an agent; all of it is asked for at each call."""

    private_hosts: Callable[[], Collection[str]]
    """The hosts that need not be on the public internet."""
    secret_value: Callable[[str], str]
    """Raises UsageError naming a secret that has no value."""
    redactor: Callable[[], Redactor]
    """Takes the agent's secrets out of texts."""
    transport: Callable[[], httpx.AsyncBaseTransport]


class HttpRequest:
    """Sends one request and gives status, address, type and body of the answer.

    A secret is filled in only for a host that it is for, by https unless the workspace lets the host be anywhere, and never
    behind a redirect to another origin. A redirect is followed only if a call of its own to that address would run unasked.
    """

    name = "http_request"
    description = (
        "Sends an HTTP request to a public address and gives status, final address, content type and body. GET and HEAD run "
        "at once; other methods may need a human's approval."
    )
    parameters = PARAMETERS
    options = ToolOptions(requires_approval=True, reads=(), writes=(), unasked=" and ".join(FREE_METHODS))
    subjects_are_paths = False

    def __init__(
        self, spec: AgentSpec, access: HttpAccess, threads: ToolThreads | None = None, limits: Limits | None = None
    ) -> None:
        self._spec = spec
        self._access = access
        self._threads = threads or ToolThreads()
        self._limits = limits
        self._secrets = {secret.name: secret for secret in spec.secrets}

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        free = is_free(args)
        always = any(not self._secrets[name].hosts for name in secrets_in(args) if name in self._secrets)
        return ToolOptions(requires_approval=not free, read_only=free, idempotent=free, always_asks=always)

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        return checked_arguments(self.name, args, self._secrets)

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        self._check(args)
        return (_subject(args["method"], args["url"]),)

    def effects(self, args: dict[str, Any]) -> Effects:
        return NO_EFFECTS

    def plan(self, args: dict[str, Any]) -> Plan:
        self._check(args)
        return Plan(digest=action_digest(self.name, args))

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        from agent_md.outbound.fetch import Limits, NoAnswer, NothingSent, fetch

        self._check(args)
        limits = self._limits or Limits()
        request = await self._threads.aside(lambda: self._outgoing(args))
        transport = await self._threads.aside(self._access.transport)  # it reads certificates
        try:
            fetched = await fetch(transport, request, self._may_follow(args), limits)
        except NothingSent as error:
            raise ToolError(f"nothing was sent: {error}") from None
        except NoAnswer as error:
            text = f"{args['method']} {args['url']}: {error}"
            raise (ToolError(text) if is_free(args) else CutOff(text)) from None
        finally:
            await transport.aclose()
        most = self._spec.settings.max_tool_result_bytes

        def told() -> str:
            from agent_md.tools.http_result import result_text

            return result_text(fetched, args.get("as", "text"), request.secrets, most, limits.body)

        return await self._threads.aside(told)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)

    def _check(self, args: dict[str, Any]) -> None:
        """Raises ToolError for an address that this agent may not reach, or may not send these secrets to."""
        from agent_md.outbound.transport import refuse_private_host

        host, private = host_of(args["url"]), [plain_host(name) for name in self._access.private_hosts()]
        if self._spec.allow_hosts and not host_allowed(host, self._spec.allow_hosts):
            raise ToolError(
                f"{host} is not one of the hosts that this agent may reach: {_list(self._spec.allow_hosts)}"
            )
        try:
            refuse_private_host(host, private)
        except AddressRefused as error:
            raise ToolError(str(error)) from None
        for name in sorted(secrets_in(args)):
            self._check_secret(self._secrets[name], args["url"], host, private)

    def _check_secret(self, secret: Secret, url: str, host: str, private: Collection[str]) -> None:
        if secret.hosts and not host_allowed(host, secret.hosts):
            raise ToolError(f"${{{secret.name}}} is not sent to {host}; it is for {_list(secret.hosts)}")
        if not url.startswith("https://") and not host_allowed(host, private):
            raise ToolError(f"${{{secret.name}}} is not sent without encryption; use https")

    def _outgoing(self, args: dict[str, Any]) -> Outgoing:
        """The request with its secrets in it. Raises ToolError for one without a value."""
        from agent_md.outbound.fetch import Outgoing

        values = {}
        for name in secrets_in(args):
            try:
                values[name] = self._access.secret_value(name)
            except UsageError as error:
                raise ToolError(f"nothing was sent: {error}") from None
        given: dict[str, str] = args.get("headers", {})
        headers = {name: PLACEHOLDER.sub(lambda found: values[found[1]], text) for name, text in given.items()}
        for name, text in headers.items():
            if CONTROL.search(text):
                raise ToolError(
                    f"nothing was sent: the value of a secret in {name} has a line break or a control character"
                )
        body: str = args.get("body", "")
        if body and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = _type_of(body)
        return Outgoing(
            args["method"],
            args["url"],
            fill_query(args["url"], values),
            headers,
            frozenset(name for name, text in given.items() if PLACEHOLDER.search(text)),
            body.encode("utf-8", "replace"),
            self._access.redactor(),
        )

    def _may_follow(self, args: dict[str, Any]) -> Callable[[str, str], str | None]:
        always_asks = self.options_for(args).always_asks

        def may_follow(method: str, url: str) -> str | None:
            target = {"method": method, "url": url}
            try:
                self._check({**target, "url": url.partition("?")[0]})  # what looks like a secret in it is none
            except ToolError as error:
                return str(error)
            subject, guarded = _subject(method, url), not is_free(target)
            verdict = decide(self._spec, self.name, target, (subject,), guarded, effects=NO_EFFECTS)
            if always_asks or verdict.decision is not Decision.RUN:
                return "it takes a call of its own"
            return None

        return may_follow


def _subject(method: str, url: str) -> str:
    return f"{method} {url}"


def _list(hosts: Collection[str]) -> str:
    return ", ".join(hosts)


def _type_of(body: str) -> str:
    return "application/json" if body.lstrip()[:1] in ("{", "[") else "text/plain; charset=utf-8"
