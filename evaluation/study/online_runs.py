"""Runs of online allocators on recordings, or on what the lifetimes of an instance ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from evaluation.study.record import OnlineRecord, RunStatus
from evaluation.study.run_kind import InstanceRuns, Named, in_registry
from evaluation.study.run_task import (
    Cost,
    RunTask,
    in_a_process,
    measured,
    status_of,
    with_cost,
)
from evaluation.study.sent_instance import SentInstance, known_of
from gpu_runtime.replaying.replay_device import open_gpu
from planners.errors import GaplessError
from planners.model.online_result import OnlineDevice, OnlineResult, OnlineTerms
from planners.model.problem import Scalar
from planners.model.request_sequence import RequestSequence
from planners.processes.isolated_process import Ended
from planners.processes.planner_answer import plain_parameters
from planners.registry import choose_online
from planners.text.plain_text import describe_error


class OnlineRuns(InstanceRuns[OnlineRecord]):
    """An online allocator on a recording."""

    name = "online"
    record = OnlineRecord
    in_grid = "online"
    prefix = "online/"
    asks_device = True

    def choose(self, text: str) -> Sequence[Named]:
        return in_registry(choose_online, text)

    def carry_out(self, task: RunTask, moment: datetime) -> OnlineRecord:
        instance = task.instance
        assert isinstance(instance, SentInstance)
        problem, bounds = known_of(instance, task.bounds_seconds)
        [chosen] = choose_online(task.label)
        terms = OnlineTerms(task.device, capacity=problem.capacity)

        def answer() -> tuple[Cost, bytes]:
            requests = instance.unpacked_requests(instance.unpacked())
            serve = chosen.info.build(**chosen.parameters)
            cost, fields = measured(lambda: _served(serve, requests, terms))
            return cost, json.dumps(fields).encode()

        sent = in_a_process(task.limits, 0, answer)
        quick = {bound.name: bound.bytes for bound in bounds}
        if isinstance(sent, Ended):
            record = self.blank(task, moment, *status_of(sent, task.limits))
            return msgspec.structs.replace(record, bounds=quick)
        cost, fields = sent
        said: dict[str, Any] = json.loads(fields)
        record = self.blank(task, moment, RunStatus(said.pop("status")))
        # The order in which it serves is given: what is asked for at once is its only bound.
        lifetime = quick.get("lifetime")
        record = msgspec.structs.replace(
            record,
            bounds=quick,
            lower_bound=lifetime,
            certificate=None if lifetime is None else "lifetime",
            **said,
        )
        return with_cost(record, cost)


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
