"""``gapless replay verify``: run a plan on real memory and check every word of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpu_runtime.verification.devices.device_kinds import DeviceKind, open_device
from gpu_runtime.verification.injection import inject, unsafe_overlaps, without_waits
from gpu_runtime.verification.trials.stamp_check_program import make_stamp_check_program
from gpu_runtime.verification.verification import (
    DEFAULT_TRIALS,
    Verification,
    VerificationRequest,
    verify,
)
from gpu_runtime.verification.verification_report import verification_record, verification_text
from planners.command_line.ending import EXIT_INTERRUPTED
from planners.command_line.typer_frame import AsJson, CommandLine
from planners.errors import GaplessError
from planners.files.formats import read_problem
from planners.files.plan_file import read_plan
from planners.judged_run import solve
from planners.model.budget import Budget
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.processes import standard_output
from planners.processes.interrupt import Interrupt
from planners.registry import choose_one
from planners.waits.waiting_streams import without_streams

DEFAULT_PLANNER = "many-objects-size-first"
PLANNING_SECONDS = 10.0

EXIT_CORRUPTED = 1

app = CommandLine()


@dataclass(frozen=True)
class _Options:
    instance: Annotated[Path, typer.Argument(metavar="FILE", help="Instance file.")]
    planner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Planner; {DEFAULT_PLANNER} by default."),
    ] = None
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Plan file, instead of a planner.")
    ] = None
    device: Annotated[
        DeviceKind,
        typer.Option(
            help="simulated (streams on a clock, repeatable by seed), cpu (a thread for each "
            "stream), or the first GPU."
        ),
    ] = DeviceKind.SIMULATED
    trials: Annotated[int, typer.Option(help="Runs of the whole schedule.")] = DEFAULT_TRIALS
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0
    injected: Annotated[
        int,
        typer.Option(
            "--inject",
            metavar="K",
            help="Move K tensors onto an unsafe partner; exit with 0 if all are caught.",
        ),
    ] = 0
    ignore_streams: Annotated[
        bool, typer.Option("--ignore-streams", help="Plan wrongly, as if there was one stream.")
    ] = False
    left_out: Annotated[
        int,
        typer.Option(
            "--without-waits",
            metavar="K",
            help="Run without the last K control arcs, such as those of compare --waits, to see "
            "which tensors lose bytes.",
        ),
    ] = 0
    every_byte: Annotated[
        bool,
        typer.Option(
            "--every-byte",
            help="Hold every byte also without a GPU, instead of a word for each range of bytes "
            "that the same tensors cover.",
        ),
    ] = False
    as_json: AsJson = False

    def __post_init__(self) -> None:
        if self.injected and (self.ignore_streams or self.left_out):
            # The mistakes of such a plan could not be told from the injected ones.
            other = "--ignore-streams" if self.ignore_streams else "--without-waits"
            raise GaplessError(f"--inject: a right plan is needed; leave out {other}")


@app.command_of(_Options, "verify")
def verify_plan(options: _Options) -> None:
    """Verify a plan: stamp and check every tensor while the instance's streams run for real.

    Exits with 1 if a tensor lost bytes or an injected mistake went unseen, with 2 after an error,
    and with 130 after Ctrl-C, which still prints the findings so far.
    """
    problem = read_problem(options.instance)
    make_stamp_check_program(problem)  # what cannot be run needs no plan
    plan, name = _choose_plan(problem, options)
    if options.injected < 0:
        raise GaplessError(f"--inject: at least 0 is needed, found {options.injected}")
    is_wrong = options.ignore_streams or options.left_out > 0
    problem = without_waits(problem, options.left_out) if options.left_out else problem
    request = VerificationRequest(
        trials=options.trials,
        seed=options.seed,
        is_compressed=options.device.is_host and not options.every_byte,
        injections=tuple(inject(problem, plan, options.injected, options.seed)),
        # Every other plan was judged, and has no unsafe overlaps.
        overlaps=tuple(unsafe_overlaps(problem, plan.offsets)) if is_wrong else (),
    )
    verification = verify(problem, plan.offsets, open_device(options.device), request)
    if options.as_json:
        record = verification_record(verification, name)
        standard_output.write(json.dumps(record, indent=1) + "\n")
    else:
        standard_output.write(verification_text(verification, name))
    raise typer.Exit(_exit_code(verification))


def _choose_plan(problem: Problem, options: _Options) -> tuple[Plan, str]:
    """Return the plan of a file or of a planner, right for the problem that it was made for."""
    if options.plan is not None:
        if options.planner is not None or options.ignore_streams:
            raise GaplessError("--plan: a plan file needs neither --planner nor --ignore-streams")
        result = read_plan(problem, options.plan)
        assert result.plan is not None
        return result.plan, str(options.plan)
    chosen = choose_one(DEFAULT_PLANNER if options.planner is None else options.planner)
    planned = without_streams(problem) if options.ignore_streams else problem
    budget = Budget(time_limit_seconds=PLANNING_SECONDS, seed=options.seed)
    with standard_output.kept_for_the_answer(), Interrupt() as interrupt:
        plan = solve(planned, chosen, budget)
        if interrupt.came:
            # The planner kept its best plan, but the user no longer wants it verified.
            raise KeyboardInterrupt
    return plan, f"{chosen.label}{', which ignores streams' if options.ignore_streams else ''}"


def _exit_code(verification: Verification) -> int:
    if verification.interrupted:
        return EXIT_INTERRUPTED
    if not verification.injections:
        return 0 if verification.passed else EXIT_CORRUPTED
    all_caught = all(map(verification.caught, verification.injections))
    clean = not verification.false_alarms() and not verification.lost
    return 0 if all_caught and clean else EXIT_CORRUPTED
