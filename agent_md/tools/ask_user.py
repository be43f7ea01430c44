"""`ask_user`: lets the model ask a human."""

from __future__ import annotations

import json
from typing import Any

from agent_md import sdk
from agent_md.agents.effects import NO_EFFECTS, Effects
from agent_md.executions.answers import denial_text
from agent_md.executions.requests import CallEffect
from agent_md.executions.states import Outcome, RequestKind
from agent_md.tools.arguments import action_digest, check_arguments, object_schema, refuse_arguments
from agent_md.tools.base import Plan, Settled, SettledState, ToolOptions

__all__ = ["AskUser"]


class AskUser:
    """Returns the typed text, `Yes` or `No`, or the chosen option (with `multi` as a JSON list).

    A denied or expired request is a result too: the model is told so and continues."""

    name = "ask_user"
    description = (
        "Asks the human and waits for the answer: kind input for free text, confirm for yes or no, choice to pick one "
        "of the options (several with multi)."
    )
    parameters = object_schema(
        {"question": {"type": "string", "minLength": 1, "description": "What the human reads."}},
        {
            "kind": {"enum": ["input", "confirm", "choice"], "type": "string", "description": "input if not given."},
            "options": {"type": "array", "items": {"type": "string"}, "description": "Only with kind choice."},
            "multi": {"type": "boolean", "description": "Only with kind choice: several options may be picked."},
        },
    )
    options = ToolOptions(idempotent=True, reads=(), writes=())
    subjects_are_paths = False

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        args = check_arguments(self.name, self.parameters, args)
        if problems := _problems(args):
            raise refuse_arguments(self.name, problems)
        return args

    def subjects(self, args: dict[str, Any]) -> None:
        return None

    def effects(self, args: dict[str, Any]) -> Effects:
        return NO_EFFECTS

    def plan(self, args: dict[str, Any]) -> Plan:
        return Plan(digest=action_digest(self.name, args))

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        question: str = args["question"]
        try:
            match args.get("kind", "input"):
                case "confirm":
                    return _confirmed(question)
                case "choice":
                    return _chosen(question, args["options"], multi=args.get("multi", False))
                case _:
                    return sdk.request_input(question)
        except (sdk.RequestDenied, sdk.RequestExpired) as refusal:
            return str(refusal)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)


def _confirmed(question: str) -> str:
    # Not by request_confirmation, for which a question that nobody answered is a no.
    answer = sdk.current_call.get().ask(RequestKind.CONFIRM, question)
    if answer.outcome is Outcome.APPROVED:
        return "Yes"
    if answer.outcome is not Outcome.DENIED:
        return denial_text(answer)
    reason = (answer.value or {}).get("reason")
    return f"No: {reason}" if reason else "No"


def _chosen(question: str, options: list[str], *, multi: bool) -> str:
    selected = sdk.request_choice(question, options, multi=multi)
    return selected if isinstance(selected, str) else json.dumps(selected, ensure_ascii=False)


def _problems(args: dict[str, Any]) -> list[str]:
    if not args["question"].strip():
        return ["question: is empty"]
    if args.get("kind", "input") == "choice":
        return _option_problems(args.get("options", []))
    kind = args.get("kind", "input")
    problems = [f"options: only kind choice has options, not {kind}"] if "options" in args else []
    return [*problems, f"multi: only kind choice has it, not {kind}"] if args.get("multi") else problems


def _option_problems(options: list[str]) -> list[str]:
    texts = [option.strip() for option in options]
    if not texts:
        return ["options: kind choice needs at least one option"]
    if "" in texts:
        return ["options: an option is empty"]
    return ["options: two options are equal"] if len(set(texts)) < len(texts) else []
