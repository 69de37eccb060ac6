"""Runs on instances: planners, whose answers are judged, and online allocators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice

import msgspec
import numpy as np

from evaluation.study.record import OffsetsRecord, OnlineRecord, RunStatus
from evaluation.study.run_task import (
    Cost,
    Found,
    InstanceRuns,
    Named,
    RunTask,
    found_in_a_process,
    in_a_process,
    in_registry,
    measured,
    status_of,
    with_cost,
)
from evaluation.study.sent_instance import SentInstance, known_of
from gpu_runtime.replaying.replay_device import open_gpu
from planners.answers.answer_by_parts import answer_by_parts, pins_in_conflict
from planners.answers.isolated_planner import MOST_HEADER_BYTES, packed, unpacked
from planners.answers.planner_answer import (
    OUT_OF_MEMORY,
    MalformedAnswerError,
    plain_parameters,
    take_in,
)
from planners.errors import GaplessError
from planners.judged_run import answer_with
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.online_result import OnlineDevice, OnlineResult, OnlineTerms
from planners.model.plan import Status
from planners.model.problem import Problem, Scalar
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import judged_answer
from planners.processes.isolated_process import Ended
from planners.referee.judge import judge_all
from planners.registry import ChosenPlanner, choose, choose_one, choose_online
from planners.text.plain_text import describe_error

# A tiny problem, planned before the measured one so that no run pays for imports.
TINY = ([1, 2], [0, 0], [1, 1])
TINY_BUDGET = Budget(time_limit_seconds=1.0)
# Iterations, from the first on, whose device calls a record has.
MOST_ITERATIONS = 12


class OffsetsRuns(InstanceRuns[OffsetsRecord]):
    """A planner on an instance."""

    name = "offsets"
    record = OffsetsRecord
    in_grid = "planners"
    prefix = ""

    def choose(self, text: str) -> Sequence[Named]:
        return in_registry(choose, text)

    def carry_out(self, task: RunTask, moment: datetime) -> OffsetsRecord:
        assert isinstance(task.instance, SentInstance)
        problem, bounds = known_of(task.instance, task.bounds_seconds)
        chosen = choose_one(task.named.label)
        process = _PlannerProcess(task, task.instance, chosen)
        # The planner reports a failed import when it runs.
        with suppress(Exception):
            chosen.info.prepare()
        found = pins_in_conflict(problem) or process(problem)
        answer = answer_with(chosen, task.budget, found)
        (result,) = judge_all(problem, [answer], bounds)
        status, reason = RunStatus(result.status.value), result.reason
        if process.ended is not None:
            status, reason = status_of(process.ended, task.limits)
        elif status is RunStatus.NO_PLAN_FOUND and reason.startswith(OUT_OF_MEMORY):
            status = RunStatus.OUT_OF_MEMORY
        record = msgspec.structs.replace(
            self.blank(task, moment, status, reason or None),
            peak=None if status is RunStatus.INVALID else result.peak,
            lower_bound=result.lower_bound if result.certificate else None,
            certificate=result.certificate or None,
            cost=result.cost,
            cost_bound=result.cost_bound if problem.cost_decides else None,
            bounds={bound.name: bound.bytes for bound in bounds},
            incumbents=process.incumbents,
            statistics=dict(result.statistics),
        )
        return with_cost(record, process.cost)


class _PlannerProcess:
    """A planner in a process of its own, with the cost, the end and the incumbents of the run."""

    def __init__(self, task: RunTask, instance: SentInstance, chosen: ChosenPlanner) -> None:
        self._task, self._instance, self._chosen = task, instance, chosen
        self.cost: Cost | None = None
        self.ended: Ended | None = None
        self.incumbents: tuple[tuple[float, int], ...] = ()

    def __call__(self, problem: Problem) -> Findings:
        sent = in_a_process(
            self._task.limits, MOST_HEADER_BYTES + 8 * problem.tensor_count, self._answer
        )
        if isinstance(sent, Ended):
            self.ended = sent
            return Findings(reason=sent.how)
        self.cost, answer = sent
        try:
            found = take_in(problem, unpacked(answer))
            self.incumbents = tuple(found.incumbents)
            return found
        except Exception:
            return Findings(reason="its process sent no valid answer", claimed=Status.INVALID)

    def _answer(self) -> tuple[Cost, bytes]:
        problem = self._instance.unpacked()
        answer_by_parts(self._chosen, Problem(*TINY), TINY_BUDGET.started())
        budget = self._task.budget
        cost, found = measured(lambda: answer_by_parts(self._chosen, problem, budget.started()))
        return cost, packed(found)


class OnlineRuns(InstanceRuns[OnlineRecord]):
    """An online allocator on a recording."""

    name = "online"
    record = OnlineRecord
    asks_device = True

    def choose(self, text: str) -> Sequence[Named]:
        return in_registry(choose_online, text)

    def carry_out(self, task: RunTask, moment: datetime) -> OnlineRecord:
        instance = task.instance
        assert isinstance(instance, SentInstance)
        problem, bounds = known_of(instance, task.bounds_seconds)
        [chosen] = choose_online(task.named.label)
        terms = OnlineTerms(task.device, capacity=problem.capacity)

        def answer() -> tuple[Cost, Found]:
            requests = instance.unpacked_requests(instance.unpacked())
            serve = chosen.info.build(**chosen.parameters)
            return measured(lambda: _served(serve, requests, terms))

        sent = found_in_a_process(task.limits, answer)
        record = self.recorded(task, moment, sent)
        quick = {bound.name: bound.bytes for bound in bounds}
        if isinstance(sent, Ended):
            return msgspec.structs.replace(record, bounds=quick)
        # The order of the requests is given, so the most bytes alive at once are the only bound.
        lifetime = quick.get("lifetime")
        certificate = None if lifetime is None else "lifetime"
        return msgspec.structs.replace(
            record, bounds=quick, lower_bound=lifetime, certificate=certificate
        )


def _served(
    serve: Callable[[RequestSequence, OnlineTerms], object],
    requests: RequestSequence,
    terms: OnlineTerms,
) -> Found:
    """Return fields of the record; a third party's allocator may fail in any way."""
    try:
        result = judged_answer(requests, terms, serve(requests, terms))
    except MemoryError as error:
        return {"status": RunStatus.OUT_OF_MEMORY, "reason": describe_error(error)}
    except GaplessError as error:
        return {"status": RunStatus.UNSUPPORTED, "reason": str(error)}
    except MalformedAnswerError as error:
        return {"status": RunStatus.INVALID, "reason": str(error)}
    except Exception as error:
        return {"status": RunStatus.INVALID, "reason": describe_error(error)}
    row = result.out_of_memory_row
    if row is not None:
        reason = f"out of memory at row {row:,} of {requests.row_count:,}"
        return {"status": RunStatus.NO_PLAN_FOUND, "reason": reason}
    calls = {f"{kind}_calls": int(count) for kind, count in result.device_calls.items()}
    return {
        "status": RunStatus.FEASIBLE,
        "peak": result.reserved_peak,
        "allocated": result.allocated_peak,
        "statistics": {
            **plain_parameters(result.statistics),
            "requested": result.requested_peak,
            "rows": requests.row_count,
            "sizes": len(np.unique(requests.size[requests.size > 512])),  # as a paper counts
            "allocator_seconds": result.seconds,
            **calls,
            **_iterations(result),
            **(_device_times(result, requests, terms) if result.device_seconds else {}),
        },
    }


def _iterations(result: OnlineResult) -> dict[str, Scalar]:
    """Return the device calls of the first iterations and of the last, and its mappings."""
    if not result.iteration_calls:
        return {}
    calls = [sum(each.values()) for each in result.iteration_calls]
    first = {f"in_iteration_{number}": count for number, count in enumerate(calls, 1)}
    return {
        **dict(islice(first.items(), MOST_ITERATIONS)),
        "in_last_iteration": calls[-1],
        "mapped_in_last_iteration": result.iteration_calls[-1].get("map", 0),
    }


def _device_times(
    result: OnlineResult, requests: RequestSequence, terms: OnlineTerms
) -> dict[str, Scalar]:
    """Return the seconds of device calls and of the last iteration, which stands for later ones."""
    is_gpu = terms.device is OnlineDevice.CUDA
    return {
        "device": open_gpu().name if is_gpu else str(terms.device),
        "last_iteration_seconds": result.last_iteration_seconds,
        "last_iteration_rows": requests.row_count - requests.last_iteration_row
        if requests.iteration_rows.size
        else 0,
        **{f"{kind}_seconds": seconds for kind, seconds in result.device_seconds.items()},
    }
