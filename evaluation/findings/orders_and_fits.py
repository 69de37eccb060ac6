"""Every order and fit of both algorithms on a few instances, from small to large."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.claims.offset_tables import planner_name
from evaluation.claims.planned_network import PlannedNetwork, planned_networks
from evaluation.report.figure_texts import percent_above
from evaluation.report.slots import PageMaterial, slot
from planners.errors import InstanceError
from planners.text.byte_units import three_digits
from planners.text.plain_text import shown
from planners.text.table import Row, Table, columns_of

KEY = "orders-and-fits"
PLANNERS = tuple(
    f"{algorithm}-{order}-{fit}"
    for algorithm in ("greedy", "many-objects")
    for order in ("breadth", "size", "source", "unsafe")
    for fit in ("best", "first")
)
NOTHING = "-"


@slot("orders-and-fits-table")
def _orders_and_fits_table(material: PageMaterial) -> str:
    names = material.words.get(KEY, {})
    if not isinstance(names, dict) or not all(type(name) is str for name in names.values()):
        raise InstanceError(
            f"page.{KEY}: a table of instances by their headings is needed, found {shown(names)}"
        )
    found = planned_networks(material.records, names)
    return orders_and_fits_table(found).markdown() if found else ""


def orders_and_fits_table(found: Mapping[str, PlannedNetwork]) -> Table:
    """Return a column an instance and a line a planner: its gap to the best bound, and its time."""
    columns = list(found.values())
    rows = [
        Row(("tensors", *(f"{its.tensors:,}" for its in columns))),
        Row(("naive sum / bound", *(_naive(its) for its in columns))),
        Row(("best bound (GB)", *(f"{its.best_bound:.4f}" for its in columns))),
        Row(("proven by", *(its.certificate or NOTHING for its in columns))),
        Row(("unsafe pairs (ms)", *(_milliseconds(its.relation) for its in columns))),
    ]
    rows += [
        Row((planner_name(planner), *(_plan(its, planner) for its in columns)))
        for planner in PLANNERS
    ]
    return Table(columns_of("", *found), rows)


def _naive(its: PlannedNetwork) -> str:
    if its.naive is None or not its.best_bound:
        return NOTHING
    return f"{its.naive / its.best_bound:,.2f}x"


def _milliseconds(value: float | None) -> str:
    return NOTHING if value is None else three_digits(value)


def _plan(its: PlannedNetwork, planner: str) -> str:
    if planner not in its.peaks or not its.best_bound:
        return NOTHING
    time = its.times.get(planner)
    taken = "" if time is None else f" ({three_digits(time)})"
    return f"{percent_above(its.peaks[planner], its.best_bound)}{taken}"
