"""``python -m gpu_runtime.verify``: run a plan on real memory and check every word of it."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpu_runtime.verification.devices.device_kinds import DeviceKind, open_device
from gpu_runtime.verification.injection import (
    Injection,
    inject,
    moved,
    unsafe_overlaps,
    without_streams,
)
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

DEFAULT_PLANNER = "many-objects-size-first"
PLANNING_SECONDS = 10.0

EXIT_CORRUPTED = 1

app = CommandLine()


@dataclass(frozen=True)
class ChosenPlan:
    plan: Plan
    name: str


@app.command("verify")
def verify_plan(
    instance: Annotated[Path, typer.Argument(metavar="FILE", help="Instance file.")],
    planner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Planner; {DEFAULT_PLANNER} by default."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Plan file, instead of a planner.")
    ] = None,
    device: Annotated[
        DeviceKind,
        typer.Option(
            help="simulated (streams on a clock, repeatable by seed), cpu (a thread for each "
            "stream), or the first GPU."
        ),
    ] = DeviceKind.SIMULATED,
    trials: Annotated[int, typer.Option(help="Runs of the whole schedule.")] = DEFAULT_TRIALS,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    injected: Annotated[
        int,
        typer.Option(
            "--inject",
            metavar="K",
            help="Move K tensors onto an unsafe partner; exit with 0 if all are caught.",
        ),
    ] = 0,
    ignore_streams: Annotated[
        bool, typer.Option("--ignore-streams", help="Plan wrongly, as if there was one stream.")
    ] = False,
    every_byte: Annotated[
        bool,
        typer.Option(
            "--every-byte",
            help="Hold every byte also without a GPU, instead of a word for each range of bytes "
            "that the same tensors cover.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a plan: stamp and check every tensor while the instance's streams run for real.

    Exits with 1 if a tensor lost bytes or an injected mistake went unseen, with 2 after an error,
    and with 130 after Ctrl-C, which still prints the findings so far.
    """
    if injected and ignore_streams:
        # The mistakes of such a plan could not be told from the injected ones.
        raise GaplessError("--inject: a right plan is needed; leave out --ignore-streams")
    problem = read_problem(instance)
    make_stamp_check_program(problem)  # what cannot be run needs no plan
    chosen = _choose_plan(problem, planner, plan, ignore_streams, seed)
    injections = _inject(problem, chosen.plan, injected, seed)
    offsets = moved(chosen.plan, injections)
    overlaps = [(injection.tensor, injection.partner) for injection in injections]
    if ignore_streams:  # every other plan was judged, and has no unsafe overlaps
        overlaps = unsafe_overlaps(problem, offsets)
    request = VerificationRequest(
        trials=trials,
        seed=seed,
        is_compressed=device.is_host and not every_byte,
        overlaps=tuple(overlaps),
    )
    verification = verify(problem, offsets, open_device(device), request)
    if as_json:
        record = verification_record(verification, chosen.name, injections)
        standard_output.write(json.dumps(record, indent=1) + "\n")
    else:
        standard_output.write(verification_text(verification, chosen.name, injections))
    raise typer.Exit(_exit_code(verification, injections))


def _choose_plan(
    problem: Problem, planner: str | None, file: Path | None, ignore_streams: bool, seed: int
) -> ChosenPlan:
    """Return the plan of a file or of a planner, right for the problem that it was made for."""
    if file is not None:
        if planner is not None or ignore_streams:
            raise GaplessError("--plan: a plan file needs neither --planner nor --ignore-streams")
        result = read_plan(problem, file)
        assert result.plan is not None
        return ChosenPlan(result.plan, str(file))
    chosen = choose_one(DEFAULT_PLANNER if planner is None else planner)
    planned = without_streams(problem) if ignore_streams else problem
    with standard_output.kept_for_the_answer(), Interrupt() as interrupt:
        plan = solve(planned, chosen, Budget(time_limit_seconds=PLANNING_SECONDS, seed=seed))
        if interrupt.came:
            # The planner kept its best plan, but the user no longer wants it verified.
            raise KeyboardInterrupt
    note = ", which ignores streams" if ignore_streams else ""
    return ChosenPlan(plan, f"{chosen.label}{note}")


def _inject(problem: Problem, plan: Plan, count: int, seed: int) -> list[Injection]:
    if count < 0:
        raise GaplessError(f"--inject: at least 0 is needed, found {count}")
    return inject(problem, plan, count, seed) if count else []


def _exit_code(verification: Verification, injections: list[Injection]) -> int:
    if verification.interrupted:
        return EXIT_INTERRUPTED
    if not injections:
        return 0 if verification.passed else EXIT_CORRUPTED
    all_caught = all(verification.caught(injection) for injection in injections)
    clean = not verification.false_alarms(injections) and not verification.lost
    return 0 if all_caught and clean else EXIT_CORRUPTED


main = app.run

if __name__ == "__main__":
    main()
