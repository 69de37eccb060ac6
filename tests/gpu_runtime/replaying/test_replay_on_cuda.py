"""A replay over the driver of a GPU, which stands for one here: one allocator after the other."""

from __future__ import annotations

from tests.gpu_runtime.core.driver_stand_in import output_of, stand_in

REPLAY = """
    from instances.traces.trace_requests import requests_of_trace
    from planners.model.online_result import OnlineDevice, OnlineTerms
    from planners.online.online_run import run_online
    from planners.registry import choose_online
    from tests.gpu_runtime.replaying.recordings import random_trace

    requests = requests_of_trace(random_trace(6, 16))
    chosen = choose_online("pytorch-caching,pytorch-expandable,planned")
    for device in (OnlineDevice.LEDGER, OnlineDevice.CUDA):
        run = run_online(requests, chosen, OnlineTerms(device))
        print(*(row.reason or row.result.requested_peak for row in run.rows))
        # A free counts there when it was complete, so no less is reserved.
        print(*(row.result.reserved_peak if row.result else 0 for row in run.rows))
"""


def test_each_allocator_serves_all_over_a_driver() -> None:
    lines = output_of(REPLAY, stand_in()).splitlines()
    assert lines[0].split() == [lines[0].split()[0]] * 3
    assert all(int(peak) > 0 for peak in lines[2].split())
    ledger, driver = ([int(peak) for peak in line.split()] for line in lines[1::2])
    assert all(ours <= theirs for ours, theirs in zip(ledger, driver, strict=True))
