"""From the history that PyTorch's allocator keeps to a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from instances.traces.allocation_trace import NO_MODULE, AllocationTrace
from instances.traces.event_log import COMMON_POOL, EVENT_KINDS, EventLog, trace_of_events
from planners.model.columns import IntColumn
from planners.model.problem import Scalar


def trace_of_history(
    history: Sequence[Mapping[str, Any]], name: str, origin: Mapping[str, Scalar]
) -> AllocationTrace:
    """Return the requests in the history of one device's allocator.

    It is one of ``torch.cuda.memory._snapshot()["device_traces"]``; a module is its
    ``user_metadata``. Phases begin at allocations of odd sizes, see
    :mod:`instances.traces.event_log`.
    """
    entries = [entry for entry in history if entry["action"] in EVENT_KINDS]
    modules = [entry.get("user_metadata", "") for entry in entries]
    module_names = [module for module in dict.fromkeys(modules) if module]
    pools = [entry.get("pool_id", COMMON_POOL) for entry in entries]
    pool_number = {pool: number for number, pool in enumerate(dict.fromkeys([COMMON_POOL, *pools]))}
    index = {"": NO_MODULE, **{module: number for number, module in enumerate(module_names)}}

    def column(field: str) -> IntColumn:
        return np.array([entry[field] for entry in entries], dtype=np.int64)

    log = EventLog(
        kind=np.array([EVENT_KINDS.index(entry["action"]) for entry in entries], dtype=np.int64),
        address=column("addr"),
        size=column("size"),
        stream=column("stream"),
        module=np.array([index[module] for module in modules], dtype=np.int64),
        pool=np.array([pool_number[pool] for pool in pools], dtype=np.int64),
    )
    return trace_of_events(log, module_names=module_names, name=name, origin=origin)
