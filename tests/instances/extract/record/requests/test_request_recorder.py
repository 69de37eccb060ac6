"""What is recorded becomes a trace: order, frees, phases, modules."""

from __future__ import annotations

from instances.extract.record.requests.request_recorder import RequestRecorder
from instances.traces.allocation_trace import Phase


def test_events_are_numbered_as_they_happen() -> None:
    recorder = RequestRecorder()
    weight = recorder.allocate(10)  # event 0
    recorder.begin(Phase.FORWARD)  # 1
    hidden = recorder.allocate(20)  # 2
    recorder.free(hidden)  # 3 and 4
    recorder.allocate(30)  # 5
    trace = recorder.trace("run", {"model": "tiny"})
    assert weight.size == 10
    assert trace.event_count == 6
    assert trace.size.tolist() == [10, 20, 30]
    assert trace.alloc.tolist() == [0, 2, 5]
    assert trace.free_requested.tolist() == [6, 3, 6]
    assert trace.freed.tolist() == [6, 4, 6]
    assert trace.mark_event.tolist() == [1]
    assert trace.origin == {"model": "tiny"}


def test_frees_between_two_allocations_are_told_in_the_order_of_their_requests() -> None:
    recorder = RequestRecorder()
    first, second = recorder.allocate(1), recorder.allocate(2)
    recorder.free(second)
    recorder.free(first)
    third = recorder.allocate(3)
    recorder.free(third)
    recorder.begin(Phase.OPTIMIZER)
    trace = recorder.trace("run", {})
    assert trace.free_requested.tolist() == [2, 4, 7]
    assert trace.freed.tolist() == [3, 5, 8]
    assert trace.mark_event.tolist() == [9]


def test_phases_are_numbered_by_microbatch_and_iteration() -> None:
    recorder = RequestRecorder()
    for phase in (0, 1, 0, 1, 2, 0, 1):
        recorder.begin(Phase(phase))
    trace = recorder.trace("run", {})
    assert trace.mark_microbatch.tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert trace.mark_iteration.tolist() == [0, 0, 0, 0, 0, 1, 1]


def test_modules_are_those_of_the_moment() -> None:
    module = ["net.first"]
    recorder = RequestRecorder(lambda: module[0])
    first = recorder.allocate(1)
    module[0] = ""
    recorder.allocate(2)
    module[0] = "net.second"
    recorder.free(first)
    trace = recorder.trace("run", {})
    assert trace.module_names == ("net.first", "net.second")
    assert trace.alloc_module.tolist() == [0, -1]
    assert trace.free_module.tolist() == [1, -1]


def test_a_request_that_is_taken_back_never_was() -> None:
    recorder = RequestRecorder()
    first = recorder.allocate(1)
    recorder.allocate(2)
    recorder.take_back_last()
    recorder.free(first)
    trace = recorder.trace("run", {})
    assert trace.size.tolist() == [1]
    assert trace.freed.tolist() == [2]
    assert trace.event_count == 3


def test_a_block_that_another_stream_uses_is_free_once_the_host_has_waited() -> None:
    stream = [0]
    recorder = RequestRecorder(current_stream=lambda: stream[0])
    shared = recorder.allocate(1)
    stream[0] = 7
    alone = recorder.allocate(2)
    shared.is_shared = True
    recorder.free(shared)
    recorder.free(alone)
    recorder.allocate(3)
    recorder.device_is_done()
    trace = recorder.trace("run", {})
    assert trace.stream.tolist() == [0, 7, 7]
    assert (trace.free_requested.tolist(), trace.freed.tolist()) == ([2, 3, 7], [6, 4, 7])


def test_nothing_recorded_is_an_empty_trace() -> None:
    assert RequestRecorder().trace("run", {}).request_count == 0
