"""Answers from the script of an agent's model, for testing an agent file without a human."""

from __future__ import annotations

from agent_md.agents.spec import AgentSpec
from agent_md.app import App
from agent_md.errors import AnswerRefused, UsageError
from agent_md.executions.execution import Execution
from agent_md.executions.requests import Request
from agent_md.models.script_file import Script, load_script
from agent_md.ports.store import NewAnswer

__all__ = ["ScriptedAnswers"]


class ScriptedAnswers:
    """The `answers` of one script."""

    def __init__(self, app: App, script: Script) -> None:
        self._app = app
        self._script = script

    @property
    def path(self) -> str:
        """The file they are in."""
        return self._script.path

    @classmethod
    def of(cls, app: App, spec: AgentSpec) -> ScriptedAnswers:
        """Those of an agent's model. Raises UsageError if it is not played from a script, or the script has none."""
        if spec.model.provider != "script":
            raise UsageError(
                f"--answers-from-script: the model of {spec.name} is {spec.model}; --model script/NAME tries it with the "
                "answers of a script"
            )
        script = load_script(app.assembly.scripts_dir, spec.model.name)
        if not script.answers:
            raise UsageError(f"--answers-from-script: the script {script.path} has no `answers`; add them")
        return cls(app, script)

    def answer(self, execution: Execution, request: Request) -> NewAnswer | None:
        """The first answer that fits the request, checked; None if none does. Raises AnswerRefused naming its line."""
        call = self._app.store.call(execution.id, request.position)
        tool = request.tool_name or (call.tool if call is not None else "")
        found = next((answer for answer in self._script.answers if answer.fits(request, tool)), None)
        if found is None:
            return None
        try:
            return self._app.responder.new_answer(execution, request, found.response)
        except AnswerRefused as error:
            raise AnswerRefused(f"script {self._script.path}, line {found.line}: {error}") from None
