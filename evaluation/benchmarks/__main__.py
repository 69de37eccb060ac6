"""``python -m evaluation.benchmarks NAME``: print a page of measurements."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from evaluation.benchmarks.device_calls import (
    device_calls_page,
    piece_sizes,
    study_device_calls,
)
from evaluation.benchmarks.limited_steps import MODELS, run_of_record
from evaluation.benchmarks.responsiveness import responsiveness_page
from evaluation.benchmarks.verification import verification_page
from evaluation.benchmarks.within_a_limit import study_limits, within_a_limit_page
from evaluation.benchmarks.worded_page import WordedPage
from evaluation.measuring.cores import pin_to_one_core
from gpu_runtime.replaying.replay_device import open_gpu
from gpu_runtime.verification.devices.device_kinds import DeviceKind
from instances.catalogue.catalogue_file import read_catalogue
from instances.catalogue.instance_folders import file_of
from planners.command_line import standard_output
from planners.command_line.progress_line import show_progress
from planners.command_line.typer_frame import CommandLine
from planners.errors import GaplessError, near_names
from planners.files.formats import read_problem
from planners.files.output_file import require_targets, write_output
from planners.text.byte_units import parse_bytes

app = CommandLine(no_args_is_help=True, help="Print a page of measurements.")

BERT = "bert"
Repetitions = Annotated[int, typer.Option(min=1, help="Runs of each; the median counts.")]
Output = Annotated[Path | None, typer.Option("-o", help="Write the page here as well.")]


@app.command()
def responsiveness(repetitions: Repetitions = 5, output: Output = None) -> None:
    """Time the waits of a user: for the command line, the import and the reader."""
    bert = _committed(BERT)
    command = _command("responsiveness")
    _publish(lambda: responsiveness_page(bert, command, repetitions), output, bert)


@app.command(name="device-calls")
def device_calls(
    size: Annotated[
        str, typer.Option("--bytes", metavar="BYTES", help="Memory to take: a power of two.")
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


@app.command(name="within-a-limit")
def within_a_limit(
    records: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Show earlier files of --json; measure nothing."),
    ] = None,
    models: Annotated[
        str, typer.Option(metavar="NAMES", help=f"With commas, of: {', '.join(MODELS)}.")
    ] = ",".join(MODELS),
    device: Annotated[str, typer.Option(help="cuda, or cpu with tiny models as a check.")] = "cuda",
    repetitions: Repetitions = 5,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time of the planner at each limit.")
    ] = 5.0,
    record: Annotated[
        Path | None, typer.Option("--json", help="Keep all measurements here.")
    ] = None,
    output: Output = None,
) -> None:
    """Run training steps within limits of memory, and compare with what was predicted."""
    require_targets({"-o": output, "--json": record}, ())
    chosen = []
    for name in models.split(","):
        if name not in MODELS:
            raise GaplessError(f"--models: {near_names(name, MODELS)}, found {name!r}")
        chosen.append(MODELS[name])
    if device not in ("cuda", "cpu"):
        raise GaplessError(f"--device: cuda or cpu is needed, found {device!r}")
    command = _command(
        "within-a-limit", f"--models {models}", f"--device {device}",
        f"--repetitions {repetitions}", f"--seconds {seconds:g}",
    )  # fmt: skip

    def page() -> WordedPage:
        runs = [
            run_of_record(each) for path in records or [] for each in json.loads(path.read_text())
        ]
        if not records:
            for run in study_limits(chosen, device, repetitions, seconds):
                runs.append(run)
                if record is not None:
                    write_output(record, json.dumps(runs, default=vars).encode())
        return within_a_limit_page(runs, command)

    _publish(page, output, *(records or []))


@app.command()
def verify(
    file: Annotated[
        Path | None, typer.Argument(help=f"An instance with a graph; {BERT} by default.")
    ] = None,
    device: Annotated[DeviceKind, typer.Option(help="Device to run on.")] = DeviceKind.SIMULATED,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each verification.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of each verification.")] = 0,
    output: Output = None,
) -> None:
    """Verify plans on real memory: time, bandwidth, and caught errors."""
    options = [f"--device {device.value}", f"--trials {trials}", f"--seed {seed}"]
    chosen = file or _committed(BERT)
    command = _command("verify", *([] if file is None else [file.name]), *options)
    _publish(
        lambda: verification_page(read_problem(chosen), command, device, trials, seed),
        output,
        chosen,
    )


def _committed(name: str) -> Path:
    return file_of(read_catalogue()[name])


def _command(name: str, *arguments: object) -> str:
    return " ".join(["python -m evaluation.benchmarks", name, *map(str, arguments)])


def _publish(make: Callable[[], WordedPage], output: Path | None, *files: Path) -> None:
    """Measure and print, after a check that the output can be written and is none of the files."""
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
