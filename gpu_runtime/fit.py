"""``python -m gpu_runtime.fit``: does a training step fit a GPU, and how large may its batch be."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from gpu_runtime.fitting.fit_check import FitCheck, Fits, check_fit
from gpu_runtime.fitting.fit_report import fit_json, fit_notes, fit_table, peak_line, peak_table
from gpu_runtime.fitting.largest_value import LargestValues, search_largest
from gpu_runtime.fitting.traced_program import (
    OwnProgram,
    RegisteredProgram,
    Traced,
    TracedProgram,
    trace_apart,
    trace_program,
)
from instances.extract.eager.trace_settings import (
    Batch,
    Checkpointing,
    Image,
    Layers,
    Lora,
    Microbatches,
    Optimizer,
    Precision,
    Selective,
    Seq,
    Set,
    TraceSettings,
    given,
)
from instances.extract.models import find_model
from instances.extract.models.model_registry import Models, register_own_models
from instances.extract.models.required_packages import require_packages
from instances.extract.own.own_extraction import open_own
from instances.extract.own.own_function import is_own, require_left_out, require_no_set
from planners.command_line import standard_output
from planners.command_line.progress_line import show_progress
from planners.command_line.typer_frame import AsJson, CommandLine
from planners.errors import GaplessError, errors_at
from planners.registry import ChosenOnline, choose_online
from planners.text.byte_units import human_bytes, parse_bytes

EXIT = {Fits.YES: 0, Fits.NO: 1, Fits.ONLY_PLANNED: 3}
ALLOCATORS = "pytorch-caching,pytorch-expandable,planned"
# Memory that a process takes beside reserved bytes, without the CUDA context. On an H200 up to
# 0.237 GiB were measured (docs/fit.md); rounded up.
BESIDE = "250MiB"

app = CommandLine()


@dataclass(frozen=True)
class _Terms:
    # Traces the program with changed parameters. Given a name, also asks the program for its own
    # value of that parameter.
    trace: Callable[[Mapping[str, int], str | None], Traced]
    allocators: list[ChosenOnline]
    memory: int | None
    beside: int

    @property
    def room(self) -> int | None:
        return None if self.memory is None else self.memory - self.beside

    def check(
        self, label: str, changes: Mapping[str, int], vary: str | None = None
    ) -> tuple[Traced, FitCheck]:
        """Trace the program with changed parameters, and replay the trace on every allocator."""
        values = "".join(f" {name}={value}" for name, value in changes.items())
        show_progress(f"{label}{values}: tracing")
        try:
            with standard_output.kept_for_the_answer():
                traced = self.trace(changes, vary)
                return traced, check_fit(
                    traced.trace,
                    self.allocators,
                    self.room,
                    lambda allocator: show_progress(f"{traced.label}{values}: {allocator}"),
                )
        finally:
            show_progress("")


@app.command("fit")
def fit_program(
    name: Annotated[
        str, typer.Argument(help="Model, such as bert-base, or your own, FILE.py:FUNCTION.")
    ],
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Memory of the GPU, such as 24GiB; by default only the need is shown.",
        ),
    ] = None,
    beside: Annotated[
        str, typer.Option(metavar="BYTES", help="Part of it for libraries and kernels.")
    ] = BESIDE,
    vary: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Find the largest value that fits, of batch say."),
    ] = None,
    by: Annotated[int, typer.Option(help="Try only multiples of this.")] = 1,
    allocators: Annotated[
        str, typer.Option(metavar="NAMES", help="Online allocators, as in `gpu_runtime.replay`.")
    ] = ALLOCATORS,
    groups: Annotated[
        int, typer.Option(help="Most rows of the table of live blocks at the peak; 0: no table.")
    ] = 12,
    batch: Batch = None,
    seq: Seq = None,
    image: Image = None,
    layers: Layers = None,
    checkpointing: Checkpointing = None,
    selective: Selective = None,
    lora: Lora = None,
    steps: Annotated[
        int, typer.Option(help="Steps to trace; the third is the first under a plan.")
    ] = TraceSettings.steps,
    microbatches: Microbatches = None,
    precision: Precision = None,
    optimizer: Optimizer = None,
    set_: Set = None,
    models: Models = None,
    as_json: AsJson = False,
) -> None:
    """Say without a GPU whether a training step fits one, under PyTorch's allocators and a plan.

    Exits with 0 if the step fits, 1 if it does not, and 3 if it fits only when planned. This is
    about the given values, even with --vary.
    """
    if vary is not None and memory is None:
        raise GaplessError("--vary: --memory is needed, the limit for the largest value")
    for option, value, least in (("--by", by, 1), ("--groups", groups, 0)):
        if value < least:
            raise GaplessError(f"{option}: at least {least} is needed, found {value}")
    shape: dict[str, Any] = {
        **given(batch=batch, seq=seq, image=image, layers=layers),
        **given(checkpointing=checkpointing, selective=selective, lora=lora),
    }
    loop: dict[str, Any] = given(
        microbatches=microbatches, precision=precision, optimizer=optimizer
    )
    total, taken = _parse_memory(memory, beside)
    with standard_output.kept_for_the_answer():
        chosen = choose_online(allocators)
    if is_own(name):
        require_left_out(name, {**shape, **loop})
    else:
        require_no_set(name, set_)

    def opened() -> TracedProgram:
        register_own_models(models or ())
        if is_own(name):
            return OwnProgram(open_own(name, set_ or [], show_progress), steps)
        find_model(name)
        return RegisteredProgram(name, TraceSettings(steps, **loop), shape)

    def trace(changes: Mapping[str, int], varied: str | None) -> Traced:
        if is_own(name) or models:
            require_packages()  # imported here, for all forked processes
            return trace_apart(name, opened, changes, varied)
        return trace_program(opened(), changes, varied)

    terms = _Terms(trace, chosen, total, taken)
    traced, check = terms.check(name, {}, vary)
    start = traced.value or 0
    found: LargestValues | None = None
    try:
        if vary is not None and terms.room is not None:
            found = LargestValues(vary, terms.room, by, {} if start % by else {start: check})
            _search(terms, traced.label, found, start, check)
    finally:  # even if a value cannot be traced, or at Ctrl-C
        _print(terms, traced, check, found, groups, as_json=as_json)
    raise typer.Exit(0 if total is None else EXIT[check.answer])


def _parse_memory(memory: str | None, beside: str) -> tuple[int | None, int]:
    taken = parse_bytes("--beside", beside)
    if memory is None:
        return None, taken
    total = parse_bytes("--memory", memory)
    if total <= taken:
        raise GaplessError(
            f"--memory: more than the {human_bytes(taken)} of --beside are needed, found "
            f"{human_bytes(total)}"
        )
    return total, taken


def _search(terms: _Terms, label: str, found: LargestValues, start: int, check: FitCheck) -> None:
    def try_value(value: int) -> FitCheck:
        with errors_at(f"{found.parameter} {value}"):
            return terms.check(label, {found.parameter: value})[1]

    search_largest(found, [row.label for row in check.rows], start, try_value)


def _print(
    terms: _Terms,
    traced: Traced,
    check: FitCheck,
    found: LargestValues | None,
    groups: int,
    *,
    as_json: bool,
) -> None:
    label, write = traced.label, standard_output.write
    if as_json:
        write(fit_json(traced, check, terms.memory, terms.beside, found))
        return
    above = f"{peak_line(label, check)}\n"
    standard_output.write_table(fit_table(check, terms.room, found), above=above)
    if groups:
        standard_output.write_table(peak_table(check.peak, groups), above="\n")
    notes = fit_notes(check, terms.memory, terms.beside, found)
    if notes:
        write("\n" + "".join(f"{note}\n" for note in notes))


main = app.run

if __name__ == "__main__":
    main()
