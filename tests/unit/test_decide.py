"""The table of the loop, one test a line."""

from agent_md.executions.ids import RequestId
from agent_md.graph.thread_view import OpenPause, TaskView, ThreadView
from agent_md.runner.next_step import Broken, Continue, Finished, Park, Seed, Wake, next_step

A, B, C = RequestId("a"), RequestId("b"), RequestId("c")


def pause(name: str, *requests: RequestId) -> TaskView:
    return TaskView(finished=False, pauses=(OpenPause(name, frozenset(requests)),))


DONE = TaskView(finished=True)
NOT_RUN = TaskView(finished=False)


def test_nothing_written_yet_begins_with_the_seed() -> None:
    assert next_step(ThreadView(written=False), ()) == Seed()


def test_no_tasks_and_an_answer_is_the_end() -> None:
    assert next_step(ThreadView(written=True, answer="Done."), ()) == Finished("Done.")


def test_an_empty_answer_is_an_answer() -> None:
    assert next_step(ThreadView(written=True, answer=""), ()) == Finished("")


def test_no_tasks_and_no_answer_is_an_error() -> None:
    assert next_step(ThreadView(written=True), ()) == Broken()


def test_every_pause_whose_requests_are_answered_is_woken_at_once() -> None:
    thread = ThreadView(written=True, tasks=(pause("1", A), pause("2", B), pause("3", C), NOT_RUN))
    assert next_step(thread, {A, C}) == Wake(("1", "3"))


def test_a_pause_with_one_of_two_answers_is_not_woken() -> None:
    thread = ThreadView(written=True, tasks=(pause("1", A, B),))
    assert next_step(thread, {A}) == Park((frozenset({A, B}),))


def test_parks_when_every_task_is_finished_or_paused() -> None:
    thread = ThreadView(written=True, tasks=(pause("1", A), DONE, pause("2", B)))
    assert next_step(thread, ()) == Park((frozenset({A}), frozenset({B})))


def test_goes_on_when_a_task_has_not_run() -> None:
    assert next_step(ThreadView(written=True, tasks=(pause("1", A), NOT_RUN)), ()) == Continue()


def test_goes_on_when_all_finished_but_the_next_checkpoint_was_not_saved() -> None:
    assert next_step(ThreadView(written=True, tasks=(DONE, DONE)), ()) == Continue()


def test_a_pause_of_a_finished_task_means_nothing() -> None:
    finished = TaskView(finished=True, pauses=(OpenPause("1", frozenset({A})),))
    assert next_step(ThreadView(written=True, tasks=(finished, NOT_RUN)), {A}) == Continue()
