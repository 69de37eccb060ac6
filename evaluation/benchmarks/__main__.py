"""``python -m evaluation.benchmarks NAME``: print a page of measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from evaluation.benchmarks.measuring.program_turns import ProgramSettings, study_programs
from evaluation.benchmarks.pages.device_calls_page import (
    device_calls_page,
    piece_sizes,
    study_device_calls,
)
from evaluation.benchmarks.pages.programs_page import programs_page
from evaluation.benchmarks.pages.responsiveness_page import responsiveness_page
from evaluation.benchmarks.pages.training_page import PARTS, training_page
from evaluation.benchmarks.pages.verification_page import verification_page
from evaluation.benchmarks.pages.worded_page import WordedPage
from evaluation.benchmarks.programs.program_list import GROUPS, find_programs
from evaluation.benchmarks.programs.program_specification import Scale
from evaluation.benchmarks.programs.program_study import ProgramStudy, read_study
from evaluation.measuring.cores import pin_to_one_core, use_every_core
from evaluation.measuring.environment import measured_now
from gpu_runtime.replaying.replay_device import open_gpu
from gpu_runtime.training.run_specification import ONLINE, Allocator
from gpu_runtime.verification.devices.cuda.driver import require_gpu
from gpu_runtime.verification.devices.device_kinds import DeviceKind
from instances.catalogue.catalogue_file import read_catalogue
from instances.catalogue.instance_folders import file_of
from planners.command_line import standard_output
from planners.command_line.progress_line import show_progress
from planners.command_line.typer_frame import CommandLine
from planners.errors import GaplessError, near_names
from planners.files.formats import read_any
from planners.files.output_file import require_targets, write_output
from planners.text.byte_units import parse_bytes

app = CommandLine(no_args_is_help=True, help=__doc__)

BERT = "bert"
# Timed steps of each program where a look is enough.
QUICK_STEPS = 10
Repetitions = Annotated[int, typer.Option(min=1, help="Runs of each; the median counts.")]
Output = Annotated[Path | None, typer.Option("-o", help="Write the page here as well.")]


@app.command()
def responsiveness(repetitions: Repetitions = 5, output: Output = None) -> None:
    """Time what a user waits for: the command line, the import, the reader."""
    bert = _committed(BERT)
    command = _command("responsiveness")
    _publish(lambda: responsiveness_page(bert, command, repetitions), output, bert)


@app.command(name="device-calls")
def device_calls(
    size: Annotated[
        str, typer.Option("--bytes", metavar="BYTES", help="Memory that is taken: a power of two.")
    ] = "2GiB",
    repetitions: Repetitions = 9,
    record: Annotated[
        Path | None, typer.Option("--json", help="Keep the seconds of every call here.")
    ] = None,
    output: Output = None,
) -> None:
    """Time create, map, set-access and unmap by size of piece (needs a GPU)."""
    require_targets({"-o": output, "--json": record}, ())
    total = parse_bytes("--bytes", size)
    piece_sizes(total)
    command = _command("device-calls", f"--bytes {size}", f"--repetitions {repetitions}")

    def page() -> WordedPage:
        gpu = open_gpu()
        study = study_device_calls(gpu, gpu.name, total, repetitions)
        if record is not None:
            write_output(record, json.dumps(study.record(), indent=1).encode())
        return device_calls_page(study, command)

    _publish(page, output)


@app.command()
def training(
    timed_steps: Annotated[int, typer.Option(min=1, help="Of each model and allocator.")] = 30,
    only: Annotated[
        list[str] | None, typer.Option(help=f"A part of the page: {', '.join(PARTS)}.")
    ] = None,
    checks_at_once: Annotated[
        bool, typer.Option("--checks-at-once", help="Compare bits side by side; needs the memory.")
    ] = False,
    output: Output = None,
) -> None:
    """Real training steps under a plan and under PyTorch's allocators (needs a GPU)."""
    # The worker processes inherit the cores: backward passes run in threads of their own.
    use_every_core()
    options = [f"--timed-steps {timed_steps}", *(f"--only {part}" for part in only or [])]
    options += ["--checks-at-once"] if checks_at_once else []
    command = _command("training", *options)
    _publish(
        lambda: training_page(command, timed_steps, only or PARTS, checks_at_once=checks_at_once),
        output,
    )


@app.command()
def programs(
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME,...", help="Of these programs alone.")
    ] = None,
    gpus: Annotated[
        int, typer.Option(min=1, max=2, help="Those that need so many, where none is named.")
    ] = 1,
    quick: Annotated[
        bool,
        typer.Option("--quick", help=f"A third of the layers, and {QUICK_STEPS} timed steps."),
    ] = False,
    timed_steps: Annotated[int, typer.Option(min=1, help="Of each program and allocator.")] = 20,
    turns: Annotated[
        int, typer.Option(min=1, help="In which the timed steps are taken, allocators in turn.")
    ] = 5,
    programs_at_once: Annotated[
        int, typer.Option(min=1, help="Programs warmed up while one is timed, itself included.")
    ] = 1,
    checks_at_once: Annotated[
        int, typer.Option(min=1, help="Processes that compare bits; up to 6 GiB each.")
    ] = 4,
    online: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help=f"Under these as well: {', '.join(ONLINE)}."),
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--json", help="Keep every figure here, program by program.")
    ] = None,
    recorded: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Measure nothing: a file that --json wrote; several make one."),
    ] = None,
    output: Output = None,
) -> None:
    """Training scripts of many kinds under a plan and under PyTorch's allocators (needs a GPU)."""
    files = recorded or []
    if files:
        _publish(lambda: programs_page(_read_studies(files)), output, *files)
        return
    require_targets({"-o": output, "--json": record}, ())
    names = _names(only)
    beside = _parse_online(online or [])
    chosen = find_programs(names) if names else GROUPS[gpus]
    steps = QUICK_STEPS if quick else timed_steps
    if steps % turns:
        raise GaplessError(f"--turns: {steps} timed steps are to be split evenly, found {turns}")
    require_gpu()
    use_every_core()
    settings = ProgramSettings(
        scale=Scale.QUICK if quick else Scale.FULL,
        turns=turns,
        turn_steps=steps // turns,
        programs_at_once=programs_at_once,
        checks_at_once=checks_at_once,
        online=beside,
    )
    options = [f"--only {','.join(names)}"] if names else [f"--gpus {gpus}"]
    options += ["--quick"] if quick else [f"--timed-steps {timed_steps}"]
    options += [f"--turns {turns}"]
    options += [f"--programs-at-once {programs_at_once}"] if programs_at_once > 1 else []
    options += [f"--online {','.join(beside)}"] if beside else []
    study = ProgramStudy(_command("programs", *options), measured_now())

    def keep() -> None:
        if record is not None:
            write_output(record, study.to_json().encode())

    def page() -> WordedPage:
        study_programs(chosen, settings, study, lambda its: show_progress(its.label), keep)
        return programs_page([study])

    _publish(page, output)


@app.command(
    hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
def fit() -> None:
    """Say what has replaced this command."""
    raise GaplessError(
        "fit: a study since; `python -m evaluation.study run fit` predicts and measures, and "
        "`python -m evaluation.report results/fit.jsonl --page fit.md` makes the page"
    )


@app.command()
def verify(
    file: Annotated[
        Path | None, typer.Argument(help=f"An instance with a graph; {BERT} by default.")
    ] = None,
    device: Annotated[DeviceKind, typer.Option(help="What to run on.")] = DeviceKind.SIMULATED,
    trials: Annotated[int, typer.Option(min=1, help="Of each verification.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of each verification.")] = 0,
    output: Output = None,
) -> None:
    """Plans on real memory: time, bandwidth, and what is caught."""
    options = [f"--device {device.value}", f"--trials {trials}", f"--seed {seed}"]
    chosen = file or _committed(BERT)
    command = _command("verify", *([] if file is None else [file.name]), *options)
    _publish(
        lambda: verification_page(read_any(chosen), command, device, trials, seed), output, chosen
    )


def _names(parts: Sequence[str] | None) -> list[str]:
    return [name for part in parts or [] for name in part.split(",")]


def _parse_online(parts: Sequence[str]) -> tuple[Allocator, ...]:
    """Return online allocators in the order in which pages have them."""
    names = [name.strip() for part in parts for name in part.split(",")]
    for name in names:
        if name not in ONLINE:
            raise GaplessError(
                f"--online: none is called {name!r}; {near_names(name, map(str, ONLINE))}"
            )
    return tuple(its for its in ONLINE if its in names)


def _read_studies(files: Sequence[Path]) -> list[ProgramStudy]:
    return [read_study(file.read_text(), file.name) for file in files]


def _committed(name: str) -> Path:
    return file_of(read_catalogue()[name])


def _command(name: str, *arguments: object) -> str:
    return " ".join(["python -m evaluation.benchmarks", name, *map(str, arguments)])


def _publish(make: Callable[[], WordedPage], output: Path | None, *files: Path) -> None:
    """Measure and print, where the page can be written and replaces none of the files."""
    require_targets({"-o": output}, files)
    text = make().render()
    show_progress("")
    if output is not None:
        write_output(output, text.encode())
    standard_output.write(text)


def main(args: Sequence[str] | None = None, prog_name: str | None = None) -> None:
    """Run the command line."""
    pin_to_one_core()
    app.run(args, prog_name)


if __name__ == "__main__":
    main()
