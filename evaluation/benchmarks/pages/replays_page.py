"""What online allocators reserve for runs that were traced without a GPU, or for recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from evaluation.benchmarks.cases.traced_loops import LOOPS, STEPS, TracedLoop
from evaluation.benchmarks.writing.figure import Figure, efficiency
from evaluation.benchmarks.writing.page import Page
from gpu_runtime.replaying.replay_device import open_gpu
from instances.traces.trace_requests import requests_of_trace
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.files.formats import read_requests
from planners.model.online_result import OnlineDevice, OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_report import last_microseconds, timed_calls
from planners.online.online_run import OnlineRow, OnlineRun, run_online
from planners.registry import choose_online
from planners.text.byte_units import counted, three_digits

BYTES_PER_GIB = 1 << 30
COLUMNS = ("allocator", "reserved", "allocated", "efficiency", "device calls", "stalls")
TIMED_COLUMNS = ("us an event", "of it in calls", "in the last iteration")
DEVICES = {
    OnlineDevice.LEDGER: "a device of accounts with memory to spare",
    OnlineDevice.SIMULATED: "memory of this machine",
}
COUNTED = "All is counted and nothing timed."
TIMED = (
    "*us an event* is the mean time in the allocator of a request or a free, in microseconds, all "
    "iterations included, and *of it in calls* the share that calls to the device took; the same "
    "mean *in the last iteration* is what goes on and on in a longer run."
)


def replays_page(
    files: Sequence[Path],
    command: str,
    loops: Sequence[TracedLoop] = LOOPS,
    device: OnlineDevice = OnlineDevice.LEDGER,
) -> Page:
    """Replay recordings, or loops that are traced here where none is given."""
    terms = OnlineTerms(device)
    is_timed = device is not OnlineDevice.LEDGER
    is_gpu = device is OnlineDevice.CUDA
    page = Page("Replays on a GPU" if is_gpu else "Replays under online allocators", command)
    page.say(
        f"Every request of a run, made to each online allocator over {_described(device)}. Peaks "
        "in GiB; efficiency is allocated / reserved, the least reserved in bold; *stalls* are "
        f"device calls in which the host waits. {TIMED if is_timed else COUNTED} "
        "[What this is](../replaying.md)."
    )
    sources: list[Callable[[], RequestSequence]] = [partial(_traced, loop) for loop in loops]
    if files:
        sources = [partial(read_requests, path) for path in files]
    else:
        page.say(
            f"The runs are {STEPS} iterations of training loops, traced without a GPU by "
            "`python -m instances.extract trace`."
        )
    for read in sources:
        requests = read()
        show_progress(f"{requests.name}: replaying")
        run = run_online(requests, choose_online("*"), terms)
        if run.left_out:
            raise KeyboardInterrupt
        _add_run(page, run)
    return page


def _traced(loop: TracedLoop) -> RequestSequence:
    return requests_of_trace(loop.trace())


def _described(device: OnlineDevice) -> str:
    if device is OnlineDevice.CUDA:
        return f"the memory of {open_gpu().name}, on which nothing else runs"
    return DEVICES[device]


def _add_run(page: Page, run: OnlineRun) -> None:
    requests = run.requests
    page.say(f"## {requests.name}")
    page.say(f"{counted(requests.request_count, 'request')}.")
    results = {row.label: _served(run, row) for row in run.rows}
    is_timed = run.terms.device is not OnlineDevice.LEDGER
    page.table(
        [*COLUMNS, *(TIMED_COLUMNS if is_timed else ())],
        [
            [
                *_cells(run, row, results[row.label]),
                *(_times(run, results[row.label]) if is_timed else ()),
            ]
            for row in run.rows
        ],
    )
    if is_timed:
        page.say("Calls, each kind with its number and the mean of one in microseconds:")
        kinds = list(dict.fromkeys(kind for each in results.values() for kind in timed_calls(each)))
        page.table(
            ["allocator", *kinds],
            [
                [label, *(_calls(result, kind) for kind in kinds)]
                for label, result in results.items()
            ],
        )


def _served(run: OnlineRun, row: OnlineRow) -> OnlineResult:
    if row.result is None or row.reason:
        raise GaplessError(f"{run.requests.name}, {row.label}: {row.reason}; no page is written")
    return row.result


def _times(run: OnlineRun, result: OnlineResult) -> list[str]:
    return [
        three_digits(result.microseconds_an_event(run.requests.row_count)),
        f"{100 * result.device_share:.1f} %",
        last_microseconds(result, run.requests),
    ]


def _calls(result: OnlineResult, kind: str) -> str:
    if kind not in timed_calls(result):
        return "-"
    mean = three_digits(result.microseconds_a_call(kind))
    return f"{result.device_calls[kind]:,} x {mean}"


def _cells(run: OnlineRun, row: OnlineRow, result: OnlineResult) -> list[str | Figure]:
    reserved = f"{result.reserved_peak / BYTES_PER_GIB:.3f}"
    return [
        row.label,
        f"**{reserved}**" if run.is_best(row) else reserved,
        f"{result.allocated_peak / BYTES_PER_GIB:.3f}",
        efficiency(result.allocated_peak, result.reserved_peak),
        f"{result.call_count:,}",
        f"{result.stalls:,}",
    ]
