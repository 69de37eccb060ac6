"""``python -m gpu_runtime.fit``: does a training step fit a GPU, and how large may its batch be."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from gpu_runtime.fitting.fewest_ranks import FewestRanks, search_fewest_ranks
from gpu_runtime.fitting.fit_answer import FitAnswer, FitPage, FitPicture
from gpu_runtime.fitting.fit_difference import (
    FitDifference,
    Threshold,
    changed_groups_table,
    read_fit,
    reserved_table,
)
from gpu_runtime.fitting.fit_report import fit_json, fit_notes, fit_sections, write_sections
from gpu_runtime.fitting.frontier import Frontier, search_frontier
from gpu_runtime.fitting.largest_value import LargestValues, search_largest
from gpu_runtime.fitting.outside_memory import CHANNELS, LIBRARIES
from gpu_runtime.fitting.rank_fit import Fits
from gpu_runtime.fitting.remedies import Remedies, seek_remedies
from gpu_runtime.fitting.replayed_program import ReplayedProgram
from gpu_runtime.fitting.traced_program import RANKS, AskedProgram
from gpu_runtime.fitting.trainer_files import TrainerRequest, is_trainer_file, read_request
from instances.extract.models.model_registry import Models
from instances.extract.models.named_model import files_of
from instances.extract.own.own_function import is_own, require_left_out, require_no_set
from instances.extract.record.recording import SHAPE
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
from planners.command_line.typer_frame import PICTURE_FILE, AsJson, CommandLine
from planners.compare.plots import find_plot
from planners.errors import GaplessError
from planners.files.output_file import require_suffix, require_targets
from planners.processes import standard_output
from planners.registry import choose_online
from planners.text.byte_units import given_bytes, human_bytes, parse_bytes
from planners.text.progress_line import show_progress

ALLOCATORS = "pytorch-caching,pytorch-expandable,planned"
LOOP = ("microbatches", "precision", "optimizer")
EXIT = {Fits.YES: 0, Fits.NO: 1, Fits.ONLY_PLANNED: 3}

app = CommandLine()


@dataclass(frozen=True)
class _Options:
    context: typer.Context
    name: Annotated[
        str | None,
        typer.Argument(
            help="Model, such as bert-base, its config.json, a trainer's files, or your own, "
            "FILE.py:NAME or FILE.py."
        ),
    ] = None
    words: Words = None
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model, if NAME is left out.")
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Memory of the GPU, such as 24GiB; by default only the need is shown.",
        ),
    ] = None
    beside: Annotated[
        str, typer.Option(metavar="BYTES", help="Part of it for libraries and kernels.")
    ] = f"{LIBRARIES >> 20}MiB"
    ranks: Annotated[
        int, typer.Option(help="Processes of a distributed training, a GPU for each.")
    ] = 1
    parallel: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help="Make the model parallel: ddp, fsdp2, tp, or fsdp2=4,tp=2. By default the "
            "function has done so.",
        ),
    ] = None
    channels: Annotated[
        int, typer.Option(help="Channels of NCCL, by which it takes buffers; 0 for none.")
    ] = CHANNELS
    imbalance: Annotated[
        float, typer.Option(help="Times its even share of tokens that an expert gets.")
    ] = 1.0
    vary: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,OTHER]",
            help="Find the largest value that fits, of batch say; by another one, of seq say. "
            "ranks: find the fewest processes that fit.",
        ),
    ] = None
    by: Annotated[int, typer.Option(help="Try only multiples of this.")] = 1
    allocators: Annotated[
        str, typer.Option(metavar="NAMES", help="Online allocators, as in gpu_runtime.replay.")
    ] = ALLOCATORS
    groups: Annotated[
        int, typer.Option(help="Most rows of the table of live blocks at the peak; 0: no table.")
    ] = 12
    with_remedies: Annotated[
        bool | None,
        typer.Option(
            "--remedies/--no-remedies",
            help="Compute what would help; by default for a step that does not fit.",
        ),
    ] = None
    batch: Batch = None
    seq: Seq = None
    image: Image = None
    layers: Layers = None
    checkpointing: Checkpointing = None
    selective: Selective = None
    lora: Lora = None
    steps: Annotated[
        int, typer.Option(help="Steps to trace; the third is the first under a plan.")
    ] = TraceSettings.steps
    microbatches: Microbatches = None
    precision: Precision = None
    optimizer: Optimizer = None
    set_: Set = None
    models: Models = None
    plot: Annotated[
        Path | None,
        typer.Option(metavar=PICTURE_FILE, help="Draw what --vary NAME,OTHER or ranks finds."),
    ] = None
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write all of it as a page.")
    ] = None
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="OLD NEW", help="Say what grew between two files of --json."),
    ] = None
    threshold: Annotated[
        str, typer.Option(metavar="GROWTH", help="With --diff: growth allowed, 1% or 64MiB say.")
    ] = "0"
    as_json: AsJson = False

    def __post_init__(self) -> None:
        for option, value, least in (
            ("--by", self.by, 1),
            ("--groups", self.groups, 0),
            ("--ranks", self.ranks, 1),
            ("--channels", self.channels, 0),
            ("--imbalance", self.imbalance, 1),
        ):
            if value < least:
                raise GaplessError(f"{option}: at least {least} is needed, found {value}")
        self._require_used()
        if self.diff is None and self.vary is not None:
            self._require_vary(self.vary)

    def _require_used(self) -> None:
        """Refuse every option that a comparison of two files, or a prediction, would not use."""
        asked = {
            str(one.name): one.opts[0] if one.opts[0].startswith("-") else one.opts[0].upper()
            for one in self.context.command.params
            if getattr(self.context.get_parameter_source(str(one.name)), "name", "")
            == "COMMANDLINE"
        }
        if self.diff is None and "threshold" in asked:
            raise GaplessError("--threshold: two files to compare are needed, after --diff")
        unused = [asked[name] for name in asked if name not in ("diff", "threshold", "groups")]
        if self.diff is not None and unused:
            raise GaplessError(f"--diff: two files are compared; leave out {', '.join(unused)}")
        if self.diff is None and (self.name is None) == (self.model is None):
            raise GaplessError("one program is needed: NAME, or --model, or two files after --diff")

    def _require_vary(self, vary: str) -> None:
        if len(vary.split(",")) > 2:
            raise GaplessError(f"--vary: one name or two are needed, found {vary}")
        if self.varies_ranks and (vary != RANKS or not self.program.can_change_ranks):
            raise GaplessError(
                f"--vary {RANKS}: it goes alone, and --parallel without numbers, found --vary "
                f"{vary}, --parallel {self.parallel}"
            )

    @cached_property
    def program(self) -> AskedProgram:
        name = self.name or self.model or ""
        shape, loop = (
            given(**{name: getattr(self, name) for name in names}) for names in (SHAPE, LOOP)
        )
        files = [name, *(self.words or ())]
        if not is_own(name) and any(map(is_trainer_file, files)):
            return self._of_files(read_request(files, self.ranks), {**shape, **loop})
        if is_own(name):
            require_left_out(name, {**shape, **loop})
        else:
            require_no_set(name, self.set_, self.words)
            if self.ranks > 1 and self.parallel is None:
                raise GaplessError(
                    f"--ranks: --parallel is needed, such as fsdp2, because the model {name} is "
                    f"not parallel by itself"
                )
        settings = TraceSettings(self.steps, **loop)
        own = (self.set_ or (), self.words or (), self.models or ())
        several = (self.ranks, self.parallel, self.imbalance)
        return AskedProgram(name, settings, shape, *own, *several)

    def _of_files(self, asked: TrainerRequest, options: dict[str, Any]) -> AskedProgram:
        """Return the program of files of trainers; options of the command line win."""
        settings = {**asked.settings, **options}
        if not settings.get("checkpointing"):
            settings.pop("checkpointing", None)
        shape, loop = (
            {name: settings[name] for name in names if name in settings} for names in (SHAPE, LOOP)
        )
        parallel = self.parallel or asked.parallel
        traced = TraceSettings(self.steps, **loop)
        return AskedProgram(
            asked.model or "", traced, shape, ranks=asked.ranks if parallel else 1,
            parallel=parallel, imbalance=self.imbalance, layout=asked.layout, notes=asked.notes,
        )  # fmt: skip

    @property
    def varies_ranks(self) -> bool:
        # A function that is not distributed may have a parameter of this name.
        return self.program.is_distributed and RANKS in (self.vary or "").split(",")

    @property
    def varied(self) -> list[str]:
        """The parameters of the program whose largest value is sought."""
        return [] if self.vary is None or self.varies_ranks else self.vary.split(",")

    @property
    def doubled_ranks(self) -> int | None:
        """The number of processes, if a remedy may double it."""
        can_double = self.ranks > 1 and self.program.can_change_ranks and not self.varies_ranks
        return self.ranks if can_double else None

    def replayed(self) -> ReplayedProgram:
        """Return the program under the allocators, within the memory of the GPU."""
        if self.vary is not None and self.memory is None:
            raise GaplessError("--vary: --memory is needed, the limit for the largest value")
        beside = parse_bytes("--beside", self.beside)
        memory = None if self.memory is None else parse_bytes("--memory", self.memory)
        if memory is not None and memory <= beside:
            raise GaplessError(
                f"--memory: more than the {human_bytes(beside)} of --beside are needed, found "
                f"{given_bytes(memory)}"
            )
        with standard_output.kept_for_the_answer():
            chosen = choose_online(self.allocators)
        return ReplayedProgram(self.program, chosen, memory, beside, self.channels)

    def pictures(self) -> dict[Path, FitPicture]:
        """Return the picture and the page that are asked for, by their files."""
        require_targets(
            {"--plot": self.plot, "--page": self.page}, files_of(self.program.name, self.models)
        )
        drawn: dict[Path, FitPicture] = {}
        if self.plot is not None:
            if len(self.varied) < 2 and not self.varies_ranks:
                raise GaplessError(
                    f"--plot: --vary with {RANKS} or two names is needed, batch,seq say"
                )
            kind = "fewest-ranks" if self.varies_ranks else "batch-frontier"
            drawn[self.plot] = find_plot(kind, FitPicture)
            require_suffix("--plot", self.plot, "a picture", drawn[self.plot].suffixes)
        if self.page is not None:
            drawn[self.page] = find_plot("fit-page", FitPage)
            require_suffix("--page", self.page, "a page", drawn[self.page].suffixes)
        return drawn


@app.command_of(_Options, "fit")
def fit_program(options: _Options) -> None:
    """Say without a GPU whether a training step fits one, under PyTorch's allocators and a plan.

    Exits with 0 if the step fits, 1 if it does not, and 3 if it fits only when planned. This is
    about the given values, even with --vary. With --diff it exits with 1 if more is reserved.
    """
    if options.diff is not None:
        old, new = map(read_fit, options.diff)
        difference = FitDifference(old, new, Threshold.parse(options.threshold))
        _print_difference(difference, options.groups)
        raise typer.Exit(1 if difference.grown else 0)
    drawn, replayed = options.pictures(), options.replayed()
    answer = FitAnswer(replayed.each_rank({}, options.varied), groups=options.groups)
    try:
        _search(answer, options, replayed)
    finally:  # even if a value cannot be traced, or at Ctrl-C
        show_progress("")
        _print(answer, as_json=options.as_json)
        for path, picture in drawn.items():
            picture.draw(answer, path)
    raise typer.Exit(0 if options.memory is None else EXIT[answer.worst.answer])


def _search(answer: FitAnswer, options: _Options, replayed: ReplayedProgram) -> None:
    """Make the searches that are asked for; an interrupt keeps what they found until then."""
    worst = answer.worst
    if options.varied and worst.room is not None:
        start = worst.traced.values[0]
        tried = {} if start % options.by else {start: worst}
        answer.found = LargestValues(options.varied[0], worst.room, options.by, tried)
        if len(options.varied) == 1:
            search_largest(answer.found, worst.labels, start, replayed.worst_at)
        else:
            answer.frontier = Frontier(options.varied[1], answer.found.parameter)
            begin = (worst.traced.values[1], start)
            search_frontier(answer.frontier, answer.found, worst.labels, begin, replayed.worst_at)
    if options.varies_ranks:
        answer.fewest = FewestRanks({options.ranks: worst})
        search_fewest_ranks(answer.fewest, replayed.worst)
    does_not_fit = worst.memory is not None and worst.answer is Fits.NO
    if does_not_fit if options.with_remedies is None else options.with_remedies:
        answer.remedies = Remedies(answer.every, options.doubled_ranks, answer.found)
        seek_remedies(answer.remedies, replayed)


def _print(answer: FitAnswer, *, as_json: bool) -> None:
    if as_json:
        standard_output.write(fit_json(answer))
        return
    write_sections(fit_sections(answer))
    notes = fit_notes(answer.worst, answer.found)
    if notes:
        standard_output.write("\n" + "".join(f"{note}\n" for note in notes))


def _print_difference(difference: FitDifference, groups: int) -> None:
    standard_output.write_table(reserved_table(difference))
    if groups and difference.groups:
        standard_output.write_table(changed_groups_table(difference, groups), above="\n")
    standard_output.write("\n" + "".join(f"{note}\n" for note in difference.notes))


main = app.run

if __name__ == "__main__":
    main()
