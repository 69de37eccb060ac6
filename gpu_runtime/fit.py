"""``python -m gpu_runtime.fit``: does a training step fit a GPU, and how large may its batch be."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gpu_runtime.fitting.fewest_ranks import FewestRanks, search_fewest_ranks
from gpu_runtime.fitting.fit_answer import FitAnswer, FitPage, FitPicture
from gpu_runtime.fitting.fit_check import FitCheck, Fits, RankFit, check_fit, worst_rank
from gpu_runtime.fitting.fit_difference import (
    FitDifference,
    Threshold,
    changed_groups_table,
    read_fit,
    reserved_table,
)
from gpu_runtime.fitting.fit_report import fit_json, fit_notes, fit_sections
from gpu_runtime.fitting.frontier import Frontier, search_frontier
from gpu_runtime.fitting.largest_value import LargestValues, search_largest
from gpu_runtime.fitting.outside_memory import CHANNELS, OutsideMemory
from gpu_runtime.fitting.remedies import Program, Remedies, seek_remedies
from gpu_runtime.fitting.traced_program import (
    OwnProgram,
    RegisteredProgram,
    Traced,
    TracedProgram,
    trace_apart,
    trace_program,
)
from instances.extract.models import find_model
from instances.extract.models.model_registry import Models, register_own_models
from instances.extract.models.named_model import files_of
from instances.extract.models.required_packages import require_packages
from instances.extract.own.own_function import is_own, require_left_out, require_no_set
from instances.extract.record.own_extraction import open_own
from instances.extract.record.ranks.parallel_model import parse_parallel
from instances.extract.record.ranks.rank import GroupFacts, Rank
from instances.extract.record.trace_settings import (
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
    Words,
    given,
)
from instances.traces.allocation_trace import AllocationTrace
from planners.command_line.typer_frame import PICTURE_FILE, AsJson, CommandLine
from planners.compare.plots import find_plot
from planners.errors import GaplessError, errors_at
from planners.files.output_file import require_suffix, require_targets
from planners.processes import standard_output
from planners.registry import ChosenOnline, choose_online
from planners.text.byte_units import given_bytes, human_bytes, parse_bytes
from planners.text.progress_line import show_progress

# The word for the number of processes after --vary.
RANKS = "ranks"
EXIT = {Fits.YES: 0, Fits.NO: 1, Fits.ONLY_PLANNED: 3}
ALLOCATORS = "pytorch-caching,pytorch-expandable,planned"
# Memory that a process takes beside reserved bytes, without the CUDA context. On an H200 up to
# 0.237 GiB were measured (docs/fit.md); rounded up.
BESIDE = "250MiB"

app = CommandLine()


@dataclass(frozen=True)
class _Terms:
    # Traces the program with changed parameters. Given names, also asks the program for its own
    # values of those parameters. Of a distributed program, the trace is that of the rank.
    trace: Callable[[Mapping[str, int], Sequence[str], int], Traced]
    allocators: list[ChosenOnline]
    memory: int | None
    beside: int
    channels: int

    def check(
        self, label: str, changes: Mapping[str, int], vary: Sequence[str] = ()
    ) -> list[RankFit]:
        """Trace the program with changed parameters, and replay the trace on every allocator.

        A distributed program has an entry for each kind of rank, any other program one.
        """
        label += "".join(f" {name}={value}" for name, value in changes.items())
        try:
            with standard_output.kept_for_the_answer():
                first = self._check_rank(label, self.trace(changes, vary, 0))
                others = GroupFacts.of(first.traced.origin).unlike[1:]
                return [first, *(
                    self._check_rank(f"{label}, rank {number}", self.trace(changes, vary, number))
                    for number in others
                )]  # fmt: skip
        finally:
            show_progress("")

    def check_changed(
        self, every: Sequence[RankFit], change: Callable[[AllocationTrace], AllocationTrace]
    ) -> RankFit:
        """Replay what a function makes of each rank's trace, and return the worst rank."""
        try:
            changed = [replace(one.traced, trace=change(one.traced.trace)) for one in every]
            return worst_rank([self._check_rank(traced.label, traced) for traced in changed])
        finally:
            show_progress("")

    def _check_rank(self, label: str, traced: Traced) -> RankFit:
        groups = GroupFacts.of(traced.origin).groups
        outside = OutsideMemory(self.beside, groups, self.channels)
        room = None if self.memory is None else max(self.memory - outside.total, 0)
        check = check_fit(
            traced.trace,
            self.allocators,
            room,
            lambda allocator: show_progress(f"{label}: {allocator}"),
        )
        return RankFit(traced, check, outside, room)


@app.command("fit")
def fit_program(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Model, such as bert-base, its config.json, or your own, FILE.py:NAME or FILE.py."
        ),
    ] = None,
    words: Words = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model, if NAME is left out.")
    ] = None,
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
    ranks: Annotated[
        int, typer.Option(help="Processes of a distributed training, a GPU for each.")
    ] = 1,
    parallel: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help="Make the model parallel: ddp, fsdp2, tp, or fsdp2=4,tp=2. By default the "
            "function has done so.",
        ),
    ] = None,
    channels: Annotated[
        int, typer.Option(help="Channels of NCCL, by which it takes buffers; 0 for none.")
    ] = CHANNELS,
    vary: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,OTHER]",
            help="Find the largest value that fits, of batch say; by another one, of seq say. "
            "ranks: find the fewest processes that fit.",
        ),
    ] = None,
    by: Annotated[int, typer.Option(help="Try only multiples of this.")] = 1,
    allocators: Annotated[
        str, typer.Option(metavar="NAMES", help="Online allocators, as in gpu_runtime.replay.")
    ] = ALLOCATORS,
    groups: Annotated[
        int, typer.Option(help="Most rows of the table of live blocks at the peak; 0: no table.")
    ] = 12,
    with_remedies: Annotated[
        bool | None,
        typer.Option(
            "--remedies/--no-remedies",
            help="Compute what would help; by default for a step that does not fit.",
        ),
    ] = None,
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
    plot: Annotated[
        Path | None,
        typer.Option(metavar=PICTURE_FILE, help="Draw what --vary NAME,OTHER or ranks finds."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write all of it as a page.")
    ] = None,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="OLD NEW", help="Say what grew between two files of --json."),
    ] = None,
    threshold: Annotated[
        str, typer.Option(metavar="GROWTH", help="With --diff: growth allowed, 1% or 64MiB say.")
    ] = "0",
    as_json: AsJson = False,
) -> None:
    """Say without a GPU whether a training step fits one, under PyTorch's allocators and a plan.

    Exits with 0 if the step fits, 1 if it does not, and 3 if it fits only when planned. This is
    about the given values, even with --vary. With --diff it exits with 1 if more is reserved.
    """
    for option, value, least in (
        ("--by", by, 1),
        ("--groups", groups, 0),
        ("--ranks", ranks, 1),
        ("--channels", channels, 0),
    ):
        if value < least:
            raise GaplessError(f"{option}: at least {least} is needed, found {value}")
    _require_options_of(diff, context)
    if diff is not None:
        old, new = map(read_fit, diff)
        difference = FitDifference(old, new, Threshold.parse(threshold))
        _print_difference(difference, groups)
        raise typer.Exit(1 if difference.grown else 0)
    if (name is None) == (model is None):
        raise GaplessError("one program is needed: NAME, or --model, or two files after --diff")
    name = name or model or ""
    varied = [] if vary is None else vary.split(",")
    if len(varied) > 2:
        raise GaplessError(f"--vary: one name or two are needed, found {vary}")
    # A function that is not distributed may have a parameter of this name.
    varies_ranks = RANKS in varied and (ranks > 1 or parallel is not None)
    if varies_ranks:
        if len(varied) > 1 or "=" in (parallel or ""):
            raise GaplessError(
                f"--vary {RANKS}: it goes alone, and --parallel without numbers, found --vary "
                f"{vary}, --parallel {parallel}"
            )
        varied = []
    require_targets({"--plot": plot, "--page": page}, files_of(name, models))
    drawn: dict[Path, FitPicture] = {}
    if plot is not None:
        if len(varied) < 2 and not varies_ranks:
            raise GaplessError(f"--plot: --vary with {RANKS} or two names is needed, batch,seq say")
        drawn[plot] = find_plot("fewest-ranks" if varies_ranks else "batch-frontier", FitPicture)
        require_suffix("--plot", plot, "a picture", drawn[plot].suffixes)
    if page is not None:
        drawn[page] = find_plot("fit-page", FitPage)
        require_suffix("--page", page, "a page", drawn[page].suffixes)
    if vary is not None and memory is None:
        raise GaplessError("--vary: --memory is needed, the limit for the largest value")
    shape: dict[str, Any] = {
        **given(batch=batch, seq=seq, image=image, layers=layers),
        **given(checkpointing=checkpointing, selective=selective, lora=lora),
    }
    loop: dict[str, Any] = given(
        microbatches=microbatches, precision=precision, optimizer=optimizer
    )
    total, taken = _parse_memory(memory, beside)
    can_change_ranks = varies_ranks or (ranks > 1 and "=" not in (parallel or ""))
    with standard_output.kept_for_the_answer():
        chosen = choose_online(allocators)
    if is_own(name):
        require_left_out(name, {**shape, **loop})
    else:
        require_no_set(name, set_, words)
        if ranks > 1 and parallel is None:
            raise GaplessError(
                f"--ranks: --parallel is needed, such as fsdp2, because the model {name} is not "
                f"parallel by itself"
            )

    def kinds_of(count: int) -> dict[str, int]:
        return {} if parallel is None else parse_parallel(parallel, count)

    kinds_of(ranks)  # refused before anything is traced

    def opened(number: int, count: int) -> TracedProgram:
        register_own_models(models or ())
        rank = Rank(number, count, kinds_of(count)) if count > 1 else None
        if is_own(name):
            if rank is not None:
                os.environ.update(rank.variables)  # those of the process of the user's file
            return OwnProgram(open_own(name, set_ or [], show_progress, words or ()), steps, rank)
        find_model(name)
        return RegisteredProgram(name, TraceSettings(steps, **loop), shape, rank)

    def trace(changes: Mapping[str, int], asked: Sequence[str], number: int) -> Traced:
        count = ranks
        if can_change_ranks:
            count = changes.get(RANKS, ranks)
            changes = {key: value for key, value in changes.items() if key != RANKS}
        which = f", rank {number} of {count}" if count > 1 else ""
        values = "".join(f" {key}={value}" for key, value in changes.items())
        show_progress(f"{name}{values}{which}: tracing")
        if is_own(name) or models:
            require_packages()  # imported here, for all forked processes
            return trace_apart(name, lambda: opened(number, count), changes, asked)
        return trace_program(opened(number, count), changes, asked)

    terms = _Terms(trace, chosen, total, taken, channels)
    answer = FitAnswer(terms.check(name, {}, varied), total, groups=groups)
    worst = answer.worst
    try:
        if varied and worst.room is not None:
            start = worst.traced.values[0]
            tried = {} if start % by else {start: worst.check}
            answer.found = LargestValues(varied[0], worst.room, by, tried)
            answer.frontier = Frontier(varied[1], varied[0]) if len(varied) > 1 else None
            _search(terms, answer.found, answer.frontier, worst)
        if varies_ranks:
            answer.fewest = FewestRanks()
            search_fewest_ranks(
                answer.fewest,
                ranks,
                worst,
                lambda count: worst_rank(terms.check(name, {RANKS: count})),
            )
        doubled = ranks if can_change_ranks and not varies_ranks else None
        does_not_fit = total is not None and worst.check.answer is Fits.NO
        if does_not_fit if with_remedies is None else with_remedies:
            answer.remedies = Remedies(worst)
            program = Program(
                lambda changes: worst_rank(terms.check(name, changes)),
                lambda change: terms.check_changed(answer.every, change),
                doubled,
                answer.found,
            )
            seek_remedies(answer.remedies, program)
    finally:  # even if a value cannot be traced, or at Ctrl-C
        _print(answer, as_json=as_json)
        for path, picture in drawn.items():
            picture.draw(answer, path)
    raise typer.Exit(0 if total is None else EXIT[worst.check.answer])


def _require_options_of(diff: object, context: typer.Context) -> None:
    """Refuse every option that a comparison of two files, or a prediction, would not use."""
    given = {
        str(one.name): one.opts[0] if one.opts[0].startswith("-") else one.opts[0].upper()
        for one in context.command.params
        if getattr(context.get_parameter_source(str(one.name)), "name", "") == "COMMANDLINE"
    }
    unused = [word for name, word in given.items() if name not in ("diff", "threshold", "groups")]
    if diff is None and "threshold" in given:
        raise GaplessError("--threshold: two files to compare are needed, after --diff")
    if diff is not None and unused:
        raise GaplessError(f"--diff: two files are compared; leave out {', '.join(unused)}")


def _parse_memory(memory: str | None, beside: str) -> tuple[int | None, int]:
    taken = parse_bytes("--beside", beside)
    if memory is None:
        return None, taken
    total = parse_bytes("--memory", memory)
    if total <= taken:
        raise GaplessError(
            f"--memory: more than the {human_bytes(taken)} of --beside are needed, found "
            f"{given_bytes(total)}"
        )
    return total, taken


def _search(terms: _Terms, found: LargestValues, frontier: Frontier | None, first: RankFit) -> None:
    def try_values(changes: Mapping[str, int]) -> FitCheck:
        with errors_at(", ".join(f"{name} {value}" for name, value in changes.items())):
            return worst_rank(terms.check(first.traced.label, changes)).check

    labels, start = [row.label for row in first.check.rows], first.traced.values[0]
    if frontier is None:
        search_largest(found, labels, start, lambda value: try_values({found.parameter: value}))
        return
    names = (frontier.doubled, frontier.searched)
    search_frontier(
        frontier,
        found,
        labels,
        (first.traced.values[1], start),
        lambda *pair: try_values(dict(zip(names, pair, strict=True))),
    )


def _print(answer: FitAnswer, *, as_json: bool) -> None:
    write = standard_output.write
    if as_json:
        write(fit_json(answer))
        return
    between = ""
    for section in fit_sections(answer):
        above = between + "".join(f"{line}\n" for line in section.above.splitlines())
        standard_output.write_table(section.table, above=above)
        write("".join(f"{line}\n" for line in section.below.splitlines()))
        between = "\n"
    notes = fit_notes(answer.worst, answer.memory, answer.found)
    if notes:
        write("\n" + "".join(f"{note}\n" for note in notes))


def _print_difference(difference: FitDifference, groups: int) -> None:
    standard_output.write_table(reserved_table(difference))
    if groups and difference.groups:
        standard_output.write_table(changed_groups_table(difference, groups), above="\n")
    standard_output.write("\n" + "".join(f"{note}\n" for note in difference.notes))


main = app.run

if __name__ == "__main__":
    main()
