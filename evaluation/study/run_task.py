"""One run, carried out where it was sent: planned in a process of its own, judged, recorded.

Note: what is in which process
------------------------------
Rationale. A planner may crash, hang or take all memory, and what it took must be its own.

Approach. Who gets a task, a process of this machine or of a cluster, unpacks the problem once for
all of its runs, and knows its bounds. For each run it forks. The child unpacks the problem anew, so
that nothing is known of it that the planner would have to find out; it frees what is left over,
plans, and sends findings and cost. The parent kills it at its limit, and judges what came.

Limits. Resident memory that the parent has is the child's as well, so memory that Python keeps for
itself can serve a small run at no cost. A lock that another thread held at the fork stays locked in
the child, which is then ended by its limit; our own workers have one thread.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from evaluation.measuring.cores import a_core_of_its_own
from evaluation.measuring.resident_memory import (
    give_back_free_memory,
    resident_peak,
    restart_peak,
)
from evaluation.study.plugins import load_plugins
from evaluation.study.record import Kind, Record, RunStatus
from evaluation.study.sent_instance import SentInstance
from evaluation.study.study import Plugin, RunLimits
from evaluation.study.surroundings import commit, this_machine, versions
from gpu_runtime.replaying.replay_device import open_gpu
from planners.errors import GaplessError
from planners.files.json_file import compact_json
from planners.judged_run import run
from planners.model.bounds import Bound, bounds_of
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.online_result import OnlineDevice, OnlineResult, OnlineTerms
from planners.model.plan import Status
from planners.model.problem import Problem, Scalar
from planners.model.request_sequence import RequestSequence
from planners.processes.isolated_planner import MOST_HEADER_BYTES, packed, unpacked
from planners.processes.isolated_process import Ended, call_isolated
from planners.processes.planner_answer import OUT_OF_MEMORY, answer_of, plain_parameters, take_in
from planners.registry import ChosenPlanner, choose_one, choose_online
from planners.text.plain_text import describe_error

Value = TypeVar("Value")

# Planned before what is measured, so that no run pays for imports.
TINY = ([1, 2], [0, 0], [1, 1])
TINY_BUDGET = Budget(time_limit_seconds=1.0)
# What stands in front of an answer: cost, and what an online allocator said.
MOST_PREFIX_BYTES = 1 << 20


@dataclass(frozen=True)
class RunTask:
    """All that is needed to make one run and its record."""

    study: str
    run: str
    asked: str
    instance: SentInstance
    kind: Kind
    planner: str
    label: str
    parameters: dict[str, Scalar]
    # Name and digest of the file that brings the planner.
    plugin: dict[str, str]
    seed: int
    repetition: int
    limits: RunLimits
    device: OnlineDevice
    timed: bool
    bounds_seconds: float
    plugins: tuple[Plugin, ...]

    @property
    def budget(self) -> Budget:
        """What the planner is told."""
        limits = self.limits
        return Budget(limits.budget_seconds, limits.node_limit, limits.threads, self.seed)


@dataclass(frozen=True)
class Cost:
    """What a planner took, and nothing around it."""

    processor_seconds: float
    wall_seconds: float
    # None where the system does not tell.
    peak_resident_bytes: int | None


def carry_out(task: RunTask) -> str:
    """Make a run in a process of its own, and return its record as a line."""
    # Told and kept before the run is held to one of the machine's cores.
    this_machine()
    with ExitStack() as stack:
        if task.timed:
            stack.enter_context(a_core_of_its_own())
        moment = now()
        load_plugins(task.plugins)
        problem, bounds = _known(task.instance, task.bounds_seconds)
        record = blank_record(task, moment, RunStatus.NO_PLAN_FOUND)
        record = replace(record, bounds={bound.name: bound.bytes for bound in bounds})
        if task.kind == "online":
            return _run_online(task, record, problem).to_json()
        return _run_planner(task, record, problem, bounds).to_json()


def blank_record(
    task: RunTask, moment: str, status: RunStatus, reason: str | None = None
) -> Record:
    """Return the record of a run of which no more is known than how it ended."""
    return Record(
        study=task.study,
        run=task.run,
        asked=task.asked,
        instance=task.instance.name,
        instance_digest=task.instance.digest,
        tensors=task.instance.tensors,
        family=task.instance.family,
        planner=task.planner,
        kind=task.kind,
        parameters=task.parameters,
        plugin=task.plugin,
        seed=task.seed,
        budget_seconds=task.limits.budget_seconds,
        repetition=task.repetition,
        status=status,
        reason=reason,
        timed=task.timed,
        machine=this_machine(),
        versions=versions(),
        commit=commit(),
        moment=moment,
    )


def now() -> str:
    """Return the moment as a record has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# Of the instance at hand: the runs of one come one after the other.
@lru_cache(maxsize=2)
def _known(instance: SentInstance, bounds_seconds: float) -> tuple[Problem, tuple[Bound, ...]]:
    problem = instance.unpacked()
    return problem, tuple(bounds_of(problem, bounds_seconds))


def _run_planner(
    task: RunTask, record: Record, problem: Problem, bounds: tuple[Bound, ...]
) -> Record:
    chosen = choose_one(task.label)
    process = _PlannerProcess(task, chosen)
    # The judge, and all that comes before it, is that of every run; the call alone is another.
    info = replace(chosen.info, build=lambda **_parameters: process)
    result = run(problem, ChosenPlanner(info, chosen.parameters), task.budget, bounds)
    status, reason = RunStatus(result.status.value), result.reason
    if process.ended is not None:
        status, reason = _status_of(process.ended, task.limits)
    elif status is RunStatus.NO_PLAN_FOUND and reason.startswith(OUT_OF_MEMORY):
        status = RunStatus.OUT_OF_MEMORY
    return _with_cost(
        replace(
            record,
            status=status,
            reason=reason or None,
            peak=None if status is RunStatus.INVALID else result.peak,
            lower_bound=result.lower_bound if result.certificate else None,
            certificate=result.certificate or None,
            incumbents=process.incumbents,
            statistics=dict(result.statistics),
        ),
        process.cost,
    )


class _PlannerProcess:
    """A planner that runs in a process of its own, and what became of that."""

    def __init__(self, task: RunTask, chosen: ChosenPlanner) -> None:
        self._task, self._chosen = task, chosen
        self.cost: Cost | None = None
        self.ended: Ended | None = None
        self.incumbents: tuple[tuple[float, int], ...] = ()

    def __call__(self, problem: Problem, _budget: Budget) -> Findings:
        sent = _in_a_process(self._task, problem.tensor_count, self._answer)
        if isinstance(sent, Ended):
            self.ended = sent
            return Findings(reason=sent.how)
        self.cost, answer = sent
        try:
            found = take_in(problem, unpacked(answer))
            self.incumbents = tuple(found.incumbents)
            return found
        except Exception:
            return Findings(reason="its process sent what is no answer", claimed=Status.INVALID)

    def _answer(self, problem: Problem) -> tuple[Cost, bytes]:
        answer_of(self._chosen, Problem(*TINY), TINY_BUDGET.started())
        budget = self._task.budget
        cost, found = _measured(lambda: answer_of(self._chosen, problem, budget.started()))
        return cost, packed(found)


def _run_online(task: RunTask, record: Record, problem: Problem) -> Record:
    [chosen] = choose_online(task.label)
    terms = OnlineTerms(task.device, capacity=problem.capacity)

    def answer(problem: Problem) -> tuple[Cost, bytes]:
        requests = task.instance.unpacked_requests(problem)
        serve = chosen.info.build(**chosen.parameters)
        cost, fields = _measured(lambda: _served(serve, requests, terms))
        return cost, json.dumps(fields).encode()

    sent = _in_a_process(task, problem.tensor_count, answer)
    if isinstance(sent, Ended):
        status, reason = _status_of(sent, task.limits)
        return replace(record, status=status, reason=reason)
    cost, fields = sent
    # The order in which it serves is given: what is asked for at once is its only bound.
    lifetime = record.bounds.get("lifetime")
    said: dict[str, Any] = json.loads(fields)
    said["status"] = RunStatus(said["status"])
    bound: dict[str, Any] = {"lower_bound": lifetime}
    bound["certificate"] = None if lifetime is None else "lifetime"
    return _with_cost(replace(record, **bound, **said), cost)


def _served(
    serve: Callable[[RequestSequence, OnlineTerms], Any],
    requests: RequestSequence,
    terms: OnlineTerms,
) -> dict[str, Any]:
    """Return fields of the record; a third party's allocator may fail in any way."""
    try:
        result = serve(requests, terms)
        if not isinstance(result, OnlineResult):
            raise TypeError(f"an OnlineResult is needed, found {type(result).__name__}")
    except MemoryError as error:
        return {"status": RunStatus.OUT_OF_MEMORY, "reason": describe_error(error)}
    except GaplessError as error:
        return {"status": RunStatus.UNSUPPORTED, "reason": str(error)}
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
            "allocator_seconds": result.seconds,
            **calls,
            **(_device_times(result, requests, terms) if result.device_seconds else {}),
        },
    }


def _device_times(
    result: OnlineResult, requests: RequestSequence, terms: OnlineTerms
) -> dict[str, Scalar]:
    """Return what calls of a device took that times them, and the iteration that goes on and on."""
    is_gpu = terms.device is OnlineDevice.CUDA
    return {
        "device": open_gpu().name if is_gpu else str(terms.device),
        "last_iteration_seconds": result.last_iteration_seconds,
        "last_iteration_rows": requests.row_count - requests.last_iteration_row
        if requests.iteration_rows.size
        else 0,
        **{f"{kind}_seconds": seconds for kind, seconds in result.device_seconds.items()},
    }


def _in_a_process(
    task: RunTask, tensors: int, answer: Callable[[Problem], tuple[Cost, bytes]]
) -> tuple[Cost, bytes] | Ended:
    """Return what an answer cost, and the answer, from a process that is held to the limits."""

    def in_the_child() -> bytes:
        # What is there already is not looked through again for what could be freed.
        gc.freeze()
        # What a planner prints is no answer of ours.
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        cost, found = answer(task.instance.unpacked())
        return compact_json(asdict(cost)).encode() + b"\n" + found

    sent = call_isolated(
        in_the_child,
        seconds=task.limits.seconds,
        memory_bytes=task.limits.memory_bytes,
        most_bytes=MOST_PREFIX_BYTES + MOST_HEADER_BYTES + 8 * tensors,
    )
    if isinstance(sent, Ended):
        return sent
    prefix, _, found = sent.partition(b"\n")
    return Cost(**json.loads(prefix)), found


def _measured(call: Callable[[], Value]) -> tuple[Cost, Value]:
    give_back_free_memory()
    before = _restarted_peak()
    wall, processor = time.perf_counter(), _processor_seconds()
    value = call()
    processor, wall = _processor_seconds() - processor, time.perf_counter() - wall
    added = None if before is None else max(0, resident_peak() - before)
    return Cost(processor, wall, added), value


def _processor_seconds() -> float:
    """Of this process and of the children it has waited for, such as CBC."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _restarted_peak() -> int | None:
    try:
        return restart_peak()
    except GaplessError:  # a system that does not grant it
        return None


def _status_of(ended: Ended, limits: RunLimits) -> tuple[RunStatus, str]:
    if ended.late:
        return RunStatus.TIMED_OUT, f"its process was killed after {limits.seconds:g} s"
    reason = f"its process {ended.how}"
    if ended.signal == signal.SIGKILL:
        return RunStatus.OUT_OF_MEMORY, f"{reason}, as the system does where memory is short"
    return RunStatus.CRASHED, reason


def _with_cost(record: Record, cost: Cost | None) -> Record:
    return record if cost is None else replace(record, **asdict(cost))
