"""`ask_user_question`: lets the model ask structured questions with options."""

from __future__ import annotations

import json
from typing import Any

from agent_md import sdk
from agent_md.agents.effects import NO_EFFECTS, Effects
from agent_md.executions.questions import QUESTIONS_SCHEMA, checked_questions
from agent_md.executions.requests import CallEffect
from agent_md.tools.arguments import action_digest, check_arguments, object_schema, refuse_arguments
from agent_md.tools.base import Plan, Settled, SettledState, ToolOptions

__all__ = ["AskUserQuestion"]

_HINT = (
    'ask like this: {"questions": [{"question": "Which database?", "header": "Database", "multiSelect": false, '
    '"options": [{"label": "SQLite", "description": "One file"}, {"label": "Postgres", "description": "A server"}]}]}'
)


class AskUserQuestion:
    """Returns a JSON object that maps each question to its answer: a label or the human's own text, with `multiSelect`
    a list.

    A denied or expired request is a result too: the model is told so and continues."""

    name = "ask_user_question"
    description = (
        "Asks the human 1 to 4 questions with 2 to 4 options each and waits for the answers. The human picks an option "
        "of each question, several with multiSelect, or gives a text of their own. The result is a JSON object from "
        "question to answer."
    )
    parameters = object_schema({"questions": QUESTIONS_SCHEMA})
    options = ToolOptions(idempotent=True, reads=(), writes=())
    subjects_are_paths = False

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        check_arguments(self.name, object_schema({"questions": {}}), args)
        try:
            return {"questions": list(checked_questions(args["questions"]))}
        except (TypeError, ValueError) as error:
            raise refuse_arguments(self.name, [str(error), _HINT]) from None

    def subjects(self, args: dict[str, Any]) -> None:
        return None

    def effects(self, args: dict[str, Any]) -> Effects:
        return NO_EFFECTS

    def plan(self, args: dict[str, Any]) -> Plan:
        return Plan(digest=action_digest(self.name, args))

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        try:
            return json.dumps(sdk.request_questions(args["questions"]), ensure_ascii=False)
        except (sdk.RequestDenied, sdk.RequestExpired) as refusal:
            return str(refusal)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)
