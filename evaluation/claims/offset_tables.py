"""The paper's Tables 2, 3 and 4 with ours beside it, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evaluation.claims.offsets import (
    above,
    average_time_saved,
    best_above_bound,
    framework_saved,
    many_above_single,
    time_saved,
)
from evaluation.claims.paper_networks import (
    LARGE_NETWORKS,
    MANY_OBJECTS,
    PAPER_NETWORKS,
    SINGLE_OBJECT,
)
from evaluation.claims.planned_network import (
    AUTO,
    PlannedNetwork,
    measured_large_networks,
    measured_networks,
    published_large_networks,
    published_networks,
)
from evaluation.report.figure_texts import percent_above
from evaluation.study.record import Record
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

# As in the paper: five networks a table.
NETWORKS_A_TABLE = 5
NOTHING = "-"

Cell = Callable[[PlannedNetwork], str]


def planner_tables(records: Sequence[Record]) -> list[str]:
    """Return Tables 2 and 3: each network as the paper has it and as it comes out here."""
    ours, theirs = measured_networks(records), published_networks()
    names = [paper.name for paper in PAPER_NETWORKS]
    tables = []
    for begin in range(0, len(names), NETWORKS_A_TABLE):
        some = names[begin : begin + NETWORKS_A_TABLE]
        columns = [(name, found.get(name)) for name in some for found in (theirs, ours)]
        headings = [text for name in some for text in (f"{name}, paper", "here")]
        rows = [
            Row((label, *(NOTHING if network is None else cell(network) for _, network in columns)))
            for label, cell in _rows()
        ]
        tables.append(Table(columns_of("", *headings), rows).markdown())
    return tables


def _rows() -> list[tuple[str, Cell]]:
    return [
        ("tensors", lambda network: _count(network.tensors)),
        ("contiguous chains", lambda network: _count(network.chains)),
        ("naive sum", lambda network: _gb(network.naive)),
        *((planner_name(planner), _plan_of(planner)) for planner in SINGLE_OBJECT),
        *((planner_name(planner), _plan_of(planner)) for planner in MANY_OBJECTS),
        (AUTO, _plan_of(AUTO)),
        ("unsafe pairs", lambda network: _relation(network.relation)),
        ("lifetime bound", lambda network: _gb(network.bound)),
        ("best bound", lambda network: _gb(network.best_bound)),
        ("best MO to best SO", lambda network: _share(many_above_single(network))),
        ("best to lifetime bound", lambda network: _share(best_above_bound(network))),
        ("best to best bound", lambda network: _share(above(network.best, network.best_bound))),
        ("auto to best bound", lambda network: _share(_auto_above_bound(network))),
        ("time, best MO to best SO", lambda network: _saved(time_saved(network))),
        ("time, mean MO to mean SO", lambda network: _saved(average_time_saved(network))),
    ]


def planner_name(planner: str) -> str:
    """Return what the paper calls a planner."""
    *algorithm, order, fit = planner.split("-")
    return f"{'SO' if algorithm == ['greedy'] else 'MO'} {order}, {fit} fit"


def _auto_above_bound(network: PlannedNetwork) -> float | None:
    return above(network.peaks.get(AUTO), network.best_bound)


def _plan_of(planner: str) -> Cell:
    def cell(network: PlannedNetwork) -> str:
        if planner not in network.peaks:
            return NOTHING
        time = network.times.get(planner)
        taken = "" if time is None else f" ({three_digits(time)})"
        return f"{_gb(network.peaks[planner])}{taken}"

    return cell


def large_table(records: Sequence[Record]) -> str:
    """Return Table 4: the framework, the best plan and the bound of the larger networks."""
    ours, theirs = measured_large_networks(records), published_large_networks()
    rows = [
        Row((paper.name, who, *_large_cells(found[paper.name])))
        for paper in LARGE_NETWORKS
        for who, found in (("paper", theirs), ("here", ours))
        if paper.name in found
    ]
    headings = ("network", "", "tensors", "naive sum (GB)", "framework (GB)", "of it in blocks",
                "best plan (GB)", "lifetime bound (GB)", "best bound (GB)", "plan to framework",
                "plan to lifetime bound", "plan to best bound", "auto to best bound")  # fmt: skip
    return Table(columns_of(*headings, left=2), rows).markdown()


def _large_cells(network: PlannedNetwork) -> list[str]:
    return [
        _count(network.tensors),
        _gb(network.naive, 2),
        _gb(network.framework, 2),
        _gb(network.framework_allocated, 2),
        _gb(network.best, 2),
        _gb(network.bound, 2),
        _gb(network.best_bound, 2),
        _saved(framework_saved(network)),
        _share(best_above_bound(network)),
        _share(above(network.best, network.best_bound)),
        _share(_auto_above_bound(network)),
    ]


def _count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _gb(value: float | None, digits: int = 4) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _relation(milliseconds: float | None) -> str:
    return NOTHING if milliseconds is None else f"({three_digits(milliseconds)})"


def _share(share: float | None) -> str:
    return NOTHING if share is None else percent_above(1 + share, 1)


def _saved(share: float | None) -> str:
    return NOTHING if share is None else f"{-share:+z.1%}"
