"""Unsafe pairs, bounds and peaks by the length of streams, and by their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluation.report.slots import PageMaterial, slot
from evaluation.study.instance_name import settings_in
from evaluation.study.record import ANSWERED, Record
from planners.compare.report import percent
from planners.errors import GaplessError
from planners.text.table import Row, Table, columns_of

# The planner that counts, from the study's own file, and those whose peaks are shown.
COUNTER, GREEDY, SEARCH = "stream-counts", "greedy-size-first", "auto"
MIB = 1 << 20
NOTHING = "-"


@dataclass(frozen=True)
class DealtGraph:
    """A graph on some streams: what was counted, and what it takes of memory."""

    # As its name in the study says.
    model: str
    settings: Mapping[str, str]
    tensors: int
    streams: int
    unsafe_pairs: int
    open_streams: int
    following_streams: int
    lifetime: int
    # The best bound; that of lifetimes where one stream leaves nothing else.
    bound: int
    # By planner.
    peaks: Mapping[str, int]

    @property
    def unsafe_share(self) -> float:
        """The share of all pairs of tensors that are unsafe."""
        return self.unsafe_pairs / max(1, self.tensors * (self.tensors - 1) // 2)

    def bytes_cells(self) -> list[str]:
        """Return bounds and peak, and how far each is above the one before."""
        return [
            _mib(self.lifetime),
            _mib(self.bound),
            percent(self.bound / self.lifetime - 1) if self.lifetime else NOTHING,
            *self._peak_cells(GREEDY),
            *self._peak_cells(SEARCH),
        ]

    def _peak_cells(self, planner: str) -> tuple[str, str]:
        peak = self.peaks.get(planner)
        if peak is None or not self.bound:
            return NOTHING, NOTHING
        return _mib(peak), percent(peak / self.bound - 1)


BYTES_HEADINGS = (
    "lifetime bound, MiB", "best bound, MiB", "above",
    f"`{GREEDY}`, MiB", "above", f"`{SEARCH}`, MiB", "above",
)  # fmt: skip


def dealt_graphs(records: Sequence[Record]) -> list[DealtGraph]:
    """Return the graphs whose unsafe pairs were counted, in the order of the records."""
    answered = [record for record in records if record.status in ANSWERED]
    peaks: dict[str, dict[str, int]] = {}
    proven: dict[str, int] = {}
    for record in answered:
        peaks.setdefault(record.instance, {})[record.planner] = record.peak or 0
        proven[record.instance] = max(proven.get(record.instance, 0), record.lower_bound or 0)
    graphs = []
    for record in answered:
        if record.planner != COUNTER:
            continue
        model, settings = settings_in(record.instance)
        counted = {key: int(value) for key, value in record.statistics.items()}
        graphs.append(
            DealtGraph(
                model=model,
                settings=settings,
                tensors=record.tensors,
                streams=counted["streams"],
                unsafe_pairs=counted["unsafe_pairs"],
                open_streams=counted["open_streams"],
                following_streams=counted["following_streams"],
                lifetime=record.bounds.get("lifetime", 0),
                bound=max(proven[record.instance], *record.bounds.values()),
                peaks=peaks[record.instance],
            )
        )
    return graphs


@slot("stream-lengths")
def _stream_lengths(material: PageMaterial) -> str:
    """Return a table a model: a line for each number of nodes that fills a stream."""
    tables = []
    for model, graphs in _by_model(material, in_succession=False).items():
        rows = [
            Row((
                f"{int(graph.settings['nodes_per_stream']):,}", str(graph.streams),
                f"{graph.open_streams} of {graph.following_streams}", f"{graph.unsafe_pairs:,}",
                f"{graph.unsafe_share:.1%}", *graph.bytes_cells(),
            ))
            for graph in graphs
        ]  # fmt: skip
        headings = (f"{model}: nodes a stream", "streams", "open", "unsafe pairs", "share")
        tables.append(Table(columns_of(*headings, *BYTES_HEADINGS, left=0), rows).markdown())
    return "\n\n".join(tables)


@slot("streams-in-succession")
def _streams_in_succession(material: PageMaterial) -> str:
    """Return a line a model; it has one share of unsafe pairs, or the page is not made."""
    rows = []
    for model, graphs in _by_model(material, in_succession=True).items():
        found = sorted({graph.unsafe_pairs for graph in graphs})
        if len(found) > 1:
            raise GaplessError(
                f"{model}: in succession one number of unsafe pairs is expected whatever the "
                f"length of streams, found {', '.join(f'{pairs:,}' for pairs in found)}"
            )
        lengths = [int(graph.settings["nodes_per_stream"]) for graph in graphs]
        first = graphs[0]
        rows.append(
            Row((
                model, f"{first.tensors:,}",
                f"{len(lengths)}, from {min(lengths):,} to {max(lengths):,}",
                f"{first.unsafe_pairs:,}", f"{first.unsafe_share:.1%}",
            ))
        )  # fmt: skip
    headings = ("instance", "tensors", "numbers of nodes", "unsafe pairs", "share")
    return Table(columns_of(*headings), rows).markdown() if rows else ""


@slot("stream-numbers")
def _stream_numbers(material: PageMaterial) -> str:
    """Return a line for each graph that was drawn with some number of streams."""
    graphs = [each for each in dealt_graphs(material.records) if "streams" in each.settings]
    rows = [
        Row((
            f"{graph.streams:,}", graph.settings.get("seed", NOTHING), f"{graph.tensors:,}",
            f"{graph.unsafe_pairs:,}", f"{graph.unsafe_share:.1%}", *graph.bytes_cells(),
        ))
        for graph in graphs
        if "nodes_per_stream" not in graph.settings
    ]  # fmt: skip
    headings = ("streams", "seed", "tensors", "unsafe pairs", "share", *BYTES_HEADINGS)
    return Table(columns_of(*headings, left=0), rows).markdown() if rows else ""


def _by_model(material: PageMaterial, *, in_succession: bool) -> dict[str, list[DealtGraph]]:
    found: dict[str, list[DealtGraph]] = {}
    for graph in dealt_graphs(material.records):
        is_so = graph.settings.get("streams") == "succession"
        if "nodes_per_stream" in graph.settings and is_so is in_succession:
            found.setdefault(graph.model, []).append(graph)
    for graphs in found.values():
        graphs.sort(key=lambda graph: int(graph.settings["nodes_per_stream"]))
    return found


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f}"
