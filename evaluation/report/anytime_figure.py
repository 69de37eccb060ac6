"""Anytime curves: how far above the best known peak a planner is after so much time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import mean

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from evaluation.report.cases import Case
from evaluation.report.drawing import (
    MOST_LINES,
    Look,
    add_legend,
    logarithmic,
    new_figure,
    plain_label,
)
from evaluation.report.time_figure import LEAST_SECONDS, seconds_text
from evaluation.study.record import OffsetsRecord

MOST_PANELS = 6
COLUMNS = 2
PANEL_INCHES = 2.3


@dataclass(frozen=True)
class AnytimeCurve:
    """What a planner had reached when: seconds, and gaps to the best known peak."""

    label: str
    seconds: Sequence[float]
    gaps: Sequence[float]


def anytime_curves(cases: Sequence[Case]) -> dict[str, list[AnytimeCurve]]:
    """Return curves by instance: those on which planners improved most within their run first."""
    found: dict[str, list[AnytimeCurve]] = {}
    for case in cases:
        curve = _curve(case)
        if curve is not None:
            found.setdefault(case.facts.instance, []).append(curve)
    gained = {
        instance: max(curve.gaps[0] - curve.gaps[-1] for curve in curves)
        for instance, curves in found.items()
    }
    order = sorted(found, key=lambda instance: -gained[instance])
    return {instance: found[instance] for instance in order}


def _curve(case: Case) -> AnytimeCurve | None:
    best = case.facts.best_known
    records = (record for record in case.records if isinstance(record, OffsetsRecord))
    first = next((record for record in records if record.incumbents), None)
    if not best or first is None:
        return None
    seconds, gaps = [], []
    reached = math.inf
    for when, peak in first.incumbents:
        if peak < reached:
            reached = peak
            seconds.append(max(when, LEAST_SECONDS))
            gaps.append(peak / best - 1)
    # The last plan stands until the run ends.
    seconds.append(max(first.wall_seconds or 0.0, seconds[-1]))
    gaps.append(gaps[-1])
    return AnytimeCurve(case.label, seconds, gaps)


def anytime_figure(
    curves: Mapping[str, Sequence[AnytimeCurve]], looks: Mapping[str, Look]
) -> Figure:
    """Return the picture of the first instances of :func:`anytime_curves`, a panel each.

    Of many planners it shows those that end nearest to the best known peaks.
    """
    shown = dict(list(curves.items())[:MOST_PANELS])
    ends: dict[str, list[float]] = {}
    for curve in chain.from_iterable(shown.values()):
        ends.setdefault(curve.label, []).append(curve.gaps[-1])
    # One that was run on fewer instances is behind those with curves on all of them.
    best = sorted(ends, key=lambda label: (-len(ends[label]), mean(ends[label])))[:MOST_LINES]
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    figure, panels = new_figure(0.5 + PANEL_INCHES * rows, rows, columns)
    for axes, (instance, its) in zip(panels, shown.items(), strict=False):
        for curve in (curve for curve in its if curve.label in best):
            axes.step(
                curve.seconds, curve.gaps, where="post", label=plain_label(curve.label),
                color=looks[curve.label]["color"], linestyle=looks[curve.label]["linestyle"],
                marker="o", markersize=2.5, linewidth=1.4,
            )  # fmt: skip
        logarithmic(axes, "x", seconds_text)
        # A line at 0 is seen above the axis.
        axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])
        axes.set_title(plain_label(instance), fontsize=10, loc="left")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda gap, _: f"{100 * gap:.3g} %"))
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    of = f"; the best {len(best)} of {len(ends)} planners" if len(best) < len(ends) else ""
    figure.supxlabel(f"time since the begin of the run{of}", fontsize=10)
    figure.supylabel("above the best known peak", fontsize=10)
    add_legend(figure, panels[: len(shown)])
    return figure
