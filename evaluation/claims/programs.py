"""What online allocators cost real programs on a GPU, of the committed page on programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evaluation.study.record import Record
from evaluation.tables.committed_page import number_of, rows_of

PROGRAMS = (
    "plain", "data-loader", "microbatches", "compile", "evaluation", "accumulate", "four-lengths",
    "random-lengths", "experts-loop", "qwen2-moe-eager", "trainer", "reduce-overhead", "cuda-graph",
    "vit", "resnet-50", "llama-random", "lora", "generation",
)  # fmt: skip
PAGE, HEADING = "programs.md", "Online allocators"

# Columns of the page, for one program and allocator.
ProgramRow = Mapping[str, str]


def programs_under(allocator: str) -> Callable[[Sequence[Record]], dict[str, ProgramRow]]:
    """Return what finds the rows of an allocator; records do not tell of programs."""

    def find(_records: Sequence[Record]) -> dict[str, ProgramRow]:
        rows = rows_of(PAGE, HEADING)
        return {row["program"]: row for row in rows if row["allocator"] == allocator}

    return find


def step_to_faster(row: ProgramRow) -> float:
    """Return how much longer a median step takes than under the faster of PyTorch's two."""
    return number_of(row["to faster"])


def reserved_to_default(row: ProgramRow) -> float:
    """Return by which share more is reserved than by PyTorch's allocator as it is by default."""
    return number_of(row["to default"])
