"""What one wait less, one wait more or one chain less is worth, ten of each at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from evaluation.study.record import ANSWERED, Record
from planners.compare.report import percent
from planners.model.problem import Scalar
from planners.text.byte_units import exact_bytes
from planners.text.table import Row, Table, columns_of

# The planner that finds them, from the study's own file.
PLANNER = "single-changes"
LESS, MORE, CHAIN = "less", "more", "chain"

# Statistics of one rank.
Found = Mapping[str, Scalar]


def found_by(record: Record) -> Iterator[Found]:
    """Return the statistics of each rank, the first one first."""
    rank = 1
    while its := {
        name.removeprefix(f"{rank}."): value
        for name, value in record.statistics.items()
        if name.startswith(f"{rank}.")
    }:
        yield its
        rank += 1


@slot("waits-less")
def _waits_less(material: PageMaterial) -> str:
    headings = ("costs, bytes", "of the bound", "`auto`, bytes", "without", "above")
    return _waits_table(material, LESS, headings)


@slot("waits-more")
def _waits_more(material: PageMaterial) -> str:
    headings = ("saves, bytes", "of the bound", "`auto`, bytes", "with", "above")
    return _waits_table(material, MORE, headings)


@slot("chains-less")
def _chains_less(material: PageMaterial) -> str:
    def cells(record: Record, found: Found) -> list[str]:
        greedy, peak = (int(record.statistics[name]) for name in ("greedy", "peak"))
        return [
            f"{found['chain']}",
            f"{found['members']}",
            exact_bytes(int(found["chain_bytes"])),
            f"{int(record.statistics['bound']) - int(found['bound']):,}",
            f"{greedy - int(found['greedy']):,}",
            f"{peak - int(found['peak']):,}",
            percent(peak / int(record.statistics["bound"]) - 1),
        ]

    headings = ("instance", "chain", "members", "its bytes", "of the bound", "of the greedy plan",
                "of the plan of `auto`", "that is above the bound")  # fmt: skip
    return _table(material, CHAIN, headings, 1, cells)


@slot("single-change-counts")
def _counts(material: PageMaterial) -> str:
    rows = [
        Row((
            cell(record.instance), str(record.parameters["change"]),
            *(f"{int(record.statistics[name]):,}" for name in ("candidates", "judged")),
            exact_bytes(record.bounds["lifetime"]), exact_bytes(int(record.statistics["bound"])),
            exact_bytes(int(record.statistics["peak"])),
        ))
        for record in material.records
        if record.planner == PLANNER and record.status in ANSWERED
    ]  # fmt: skip
    headings = ("instance", "change", "candidates", "judged", "lifetime bound", "best bound",
                "`auto`")  # fmt: skip
    return Table(columns_of(*headings, left=2), rows).markdown() if rows else ""


def _waits_table(material: PageMaterial, change: str, headings: tuple[str, ...]) -> str:
    def cells(record: Record, found: Found) -> list[str]:
        bound, worth = int(record.statistics["bound"]), int(found["bytes"])
        after = bound + worth if change == LESS else bound - worth
        ends = [
            f"{cell(str(found[end]))} on {found[f'{end}_stream']}" for end in ("after", "before")
        ]
        return [
            *ends, *([("data" if found["data"] else "control")] if change == LESS else []),
            exact_bytes(worth), percent(worth / bound),
            *(exact_bytes(int(its["peak"])) for its in (record.statistics, found)),
            percent(int(found["peak"]) / after - 1),
        ]  # fmt: skip

    words = ("instance", "node", "waits for", *(["by"] if change == LESS else []))
    return _table(material, change, (*words, *headings), len(words), cells)


def _table(
    material: PageMaterial,
    change: str,
    headings: tuple[str, ...],
    left: int,
    cells: Callable[[Record, Found], list[str]],
) -> str:
    rows = [
        Row((cell(record.instance), *cells(record, found)))
        for record in material.records
        if record.planner == PLANNER
        and record.status in ANSWERED
        and record.parameters["change"] == change
        for found in found_by(record)
    ]
    return Table(columns_of(*headings, left=left), rows).markdown() if rows else ""
