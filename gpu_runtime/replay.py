"""``python -m gpu_runtime.replay``: the requests of a run, made again to online allocators."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from gpu_runtime.online.pytorch_settings import pytorch_settings
from gpu_runtime.replaying.arranged_pools import Pools, arranged
from gpu_runtime.replaying.recorded_check import (
    RecordedCheck,
    check_against_recording,
    checked_allocator,
    replay_json,
)
from gpu_runtime.replaying.replay_device import PAGE_BYTES
from gpu_runtime.verify_command import app as verify_app
from instances.traces.difference_report import difference_report
from planners.command_line.ending import EXIT_INTERRUPTED
from planners.command_line.starting import EXIT_ERROR, EXIT_INVALID_PLAN
from planners.command_line.typer_frame import (
    PICTURE_FILE,
    AsJson,
    CommandLine,
    Plugins,
)
from planners.compare.plots import OnlinePlot, find_plot
from planners.errors import GaplessError, InstanceError
from planners.files.formats import read_requests
from planners.files.output_file import require_suffix, require_targets
from planners.model.online_result import OnlineDevice, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_report import (
    calls_table,
    figures_table,
    online_notes,
    online_table,
    requests_line,
    times_table,
)
from planners.online.online_run import OnlineRun, run_online
from planners.processes import standard_output
from planners.processes.interrupt import Interrupt
from planners.registry import ChosenOnline, choose_online, listing, load_plugin
from planners.text.byte_units import given_bytes, human_bytes, parse_bytes
from planners.text.progress_line import show_progress
from planners.text.table import aligned_pairs

EXIT_DIFFERENT = 1
ALL = "all"
PICTURE = "memory-over-time"

app = CommandLine()


@dataclass(frozen=True)
class _Options:
    trace: Annotated[
        Path | None,
        typer.Argument(metavar="TRACE", help="A recording, a snapshot, or any instance file."),
    ] = None
    allocators: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Names or wildcards, separated by commas, or all; NAME:KEY=VALUE sets a "
            "parameter.",
        ),
    ] = ALL
    device: Annotated[
        OnlineDevice,
        typer.Option(help="ledger (no memory), simulated (host memory), or the first GPU."),
    ] = OnlineDevice.LEDGER
    settings: Annotated[
        str,
        typer.Option(
            metavar="KEY:VALUE,...",
            help="Settings of PyTorch's allocator, as in PYTORCH_CUDA_ALLOC_CONF.",
        ),
    ] = ""
    capacity: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Memory of the device; more than enough by default."),
    ] = None
    pools: Annotated[
        Pools,
        typer.Option(help="Private pools as recorded, one for all captures, or one for each."),
    ] = Pools.RECORDED
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with recorded segments and addresses."),
    ] = False
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Stamp every block, and check that it stays whole."),
    ] = False
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="OTHER.npz",
            help="Replay nothing; compare the recording with another one of the same program.",
        ),
    ] = None
    iteration: Annotated[
        int, typer.Option(help="Iteration that --against compares: 0 is the first, -1 the last.")
    ] = -1
    plot: Annotated[
        Path | None,
        typer.Option(metavar=PICTURE_FILE, help="Draw reserved and allocated bytes over time."),
    ] = None
    as_json: AsJson = False
    plugin: Plugins = None
    list_allocators: Annotated[
        bool, typer.Option("--list", help="List the online allocators, one line each, and stop.")
    ] = False

    def chosen(self) -> list[ChosenOnline]:
        """Return the allocators, those of PyTorch with the settings."""
        with standard_output.kept_for_the_answer():
            for path in self.plugin or []:
                load_plugin(path)
            chosen = choose_online("*" if self.allocators == ALL else self.allocators)
        if not self.settings or self.list_allocators:
            return chosen
        pytorch_settings(self.settings)
        return [
            replace(allocator, parameters={**allocator.parameters, "settings": self.settings})
            if "settings" in allocator.info.defaults
            else allocator
            for allocator in chosen
        ]

    def picture(self, trace: Path) -> OnlinePlot | None:
        require_targets({"--plot": self.plot}, [trace, *(self.plugin or [])])
        if self.plot is None:
            return None
        picture = find_plot(PICTURE, OnlinePlot)
        require_suffix("--plot", self.plot, "a picture", picture.suffixes)
        return picture

    def terms(self) -> OnlineTerms:
        capacity = None if self.capacity is None else parse_bytes("--capacity", self.capacity)
        if capacity is not None and capacity < PAGE_BYTES:
            raise GaplessError(
                f"--capacity: a page of {human_bytes(PAGE_BYTES)} is needed at least, found "
                f"{given_bytes(capacity)}"
            )
        has_series = self.plot is not None
        return OnlineTerms(self.device, capacity, has_series=has_series, is_verified=self.verify)


@app.command_of(
    _Options,
    "replay",
    epilog="With the word verify before the name of an instance, a plan of it is run on real "
    "memory instead, and every word is checked; verify has a --help.",
)
def replay_requests(options: _Options) -> None:
    """Replay a run's requests to online allocators: peaks, efficiency, device calls, time.

    Exits with 130 after Ctrl-C, which keeps the complete rows; with 2 after an error, also of an
    allocator; and with 1 if an allocator's answer is invalid, or --check finds a difference.
    """
    chosen, trace = options.chosen(), options.trace
    if options.list_allocators:
        standard_output.write(aligned_pairs(listing(chosen)))
        return
    if trace is None:
        raise GaplessError("no trace named; give one, or --list for the online allocators")
    if options.against is not None:
        standard_output.write(difference_report(trace, options.against, options.iteration))
        return
    if options.check and options.device is not OnlineDevice.LEDGER:
        raise GaplessError("--check: --device ledger is needed; no other can repeat addresses")
    if options.check and options.pools is not Pools.RECORDED:
        raise GaplessError("--check: --pools recorded is needed; other pools have other addresses")
    picture, terms = options.picture(trace), options.terms()
    with Interrupt() as interrupt:
        requests = arranged(_read(trace), options.pools)
        if options.check:
            chosen = _as_recorded(requests, chosen)
        run = _run(requests, chosen, terms, interrupt)
        checked = _check(run) if options.check else None
        _print(run, checked, str(trace), as_json=options.as_json)
        if options.plot is not None and picture is not None and run.rows:
            picture.draw(run, options.plot)
    raise typer.Exit(_exit_code(run, checked))


def _read(trace: Path) -> RequestSequence:
    show_progress(f"reading {trace.name}")
    try:
        with standard_output.kept_for_the_answer():
            requests = read_requests(trace)
    finally:
        show_progress("")
    if not requests.request_count:
        raise InstanceError(f"{trace}: at least one request for memory is needed, found none")
    return requests


def _as_recorded(requests: RequestSequence, chosen: list[ChosenOnline]) -> list[ChosenOnline]:
    """Return the allocator that made the recording, as the user chose it."""
    name = checked_allocator(requests)
    recorded = [allocator for allocator in chosen if allocator.info.name == name]
    if not recorded:
        named = ", ".join(allocator.label for allocator in chosen)
        raise GaplessError(f"--check: the recorded allocator, {name}, is needed, found {named}")
    return recorded[:1]


def _run(
    requests: RequestSequence,
    chosen: list[ChosenOnline],
    terms: OnlineTerms,
    interrupt: Interrupt,
) -> OnlineRun:
    def show_allocator(index: int, label: str) -> None:
        show_progress(f"{requests.name}: {label} ({index + 1} of {len(chosen)})")

    try:
        with standard_output.kept_for_the_answer():
            return run_online(
                requests,
                chosen,
                terms,
                on_start=show_allocator,
                is_interrupted=lambda: interrupt.came,
            )
    finally:
        show_progress("")


def _check(run: OnlineRun) -> RecordedCheck | None:
    """Return how the one replay agrees with the recording; None without a replay."""
    results = [row.result for row in run.rows if row.result is not None]
    return check_against_recording(run.requests, results[0]) if results else None


def _print(run: OnlineRun, checked: RecordedCheck | None, file: str, *, as_json: bool) -> None:
    if as_json:
        standard_output.write(replay_json(run, file, checked))
        return
    if run.rows:
        standard_output.write_table(online_table(run), above=f"{requests_line(run.requests)}\n")
        if any(row.result is not None for row in run.rows):
            standard_output.write_table(calls_table(run), above="\n")
        if any(row.result is not None and row.result.device_seconds for row in run.rows):
            standard_output.write_table(times_table(run), above="\n")
        if any(row.result is not None and row.result.statistics for row in run.rows):
            standard_output.write_table(figures_table(run), above="\n")
    below = [f"{note}\n" for note in online_notes(run)]
    if checked is not None:
        below.append(f"{_agreement(checked)}\n")
    standard_output.write("".join(below))


def _agreement(checked: RecordedCheck) -> str:
    agreeing = (
        f"{checked.agreeing_requests:,} of {checked.requests:,} requests and "
        f"{checked.agreeing_segments:,} of {checked.segments:,} segments as recorded"
    )
    return f"{agreeing}; {checked.difference}" if checked.difference else agreeing


def _exit_code(run: OnlineRun, checked: RecordedCheck | None) -> int:
    if run.left_out:
        return EXIT_INTERRUPTED
    if any(row.result is None and row.valid for row in run.rows):
        return EXIT_ERROR
    if not all(row.valid for row in run.rows):
        return EXIT_INVALID_PLAN
    return EXIT_DIFFERENT if checked is not None and checked.difference else 0


def main(args: Sequence[str] | None = None, prog_name: str | None = None) -> None:
    """Run the command that the first word names, else replay the recording of that name."""
    words = list(sys.argv[1:] if args is None else args)
    name = prog_name or "python -m gpu_runtime.replay"
    if words[:1] == ["verify"]:
        verify_app.run(words[1:], f"{name} verify")
    else:
        app.run(words, name)


if __name__ == "__main__":
    main()
