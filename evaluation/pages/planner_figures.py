"""Figures of planners: performance profiles, time against size, and anytime curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter
from numpy.typing import NDArray

from evaluation.pages.cases import Case, by_planner
from evaluation.pages.figure_texts import count_text, seconds_text
from evaluation.plots.drawing import (
    MOST_LINES,
    Look,
    add_legend,
    in_lines,
    line_figure,
    logarithmic,
    new_figure,
    plain_label,
)
from evaluation.study.record import OffsetsRecord

# The axis of gaps is linear below this gap, and logarithmic above it.
LEAST_GAP = 1e-4
MOST_TICKS = 4


@dataclass(frozen=True)
class ProfileLine:
    """The gaps of one planner, sorted; infinite if it has no plan."""

    gaps: NDArray[np.float64]

    def share_within(self, gap: float) -> float:
        """Return the share of instances on which the planner is at most ``gap`` above the best."""
        return float((self.gaps <= gap).mean())


def profile_lines(cases: Sequence[Case]) -> dict[str, ProfileLine]:
    """Return the line of each planner; the planner that is best most often comes first.

    Only instances with a known plan count.
    """
    counted = [case for case in cases if case.has_plans and case.facts.best_known is not None]
    lines = {
        label: ProfileLine(
            np.sort([np.inf if case.gaps.to_best is None else case.gaps.to_best for case in its])
        )
        for label, its in by_planner(counted).items()
    }
    return dict(sorted(lines.items(), key=lambda entry: _rank(entry[1]), reverse=True))


def _rank(line: ProfileLine) -> list[int]:
    """Return on how many instances a planner is near: shares of other instances do not compare."""
    return [int((line.gaps <= gap).sum()) for gap in (0.0, 0.001, 0.01, 0.1, 1.0)]


def profile_figure(lines: Mapping[str, ProfileLine], looks: Mapping[str, Look]) -> Figure:
    """Return the picture of the lines of :func:`profile_lines`."""
    finite = [gap for line in lines.values() for gap in line.gaps.tolist() if np.isfinite(gap)]
    widest = max(10 * LEAST_GAP, 1.2 * max(finite, default=0.0))

    def draw(axes: Any, label: str, look: Look) -> None:
        line = lines[label]
        at = np.unique(np.concatenate([[0.0], line.gaps[np.isfinite(line.gaps)], [widest]]))
        share = [line.share_within(gap) for gap in at.tolist()]
        axes.step(at, share, where="post", **{**look, "marker": None}, linewidth=1.5)

    def dress(axes: Any) -> None:
        axes.set_xscale("symlog", linthresh=LEAST_GAP, linscale=0.5)
        axes.set_xlim(0, widest)
        axes.xaxis.set_major_locator(FixedLocator([0.0, *_spread_powers(widest)]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(0, 1.02)
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda gap, _: f"{100 * gap:,g} %" if gap else "0")
        )
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))

    words = ("at most so far above the best known peak", "share of the instances")
    texts = {label: f"{label} ({len(line.gaps)})" for label, line in lines.items()}
    return line_figure(texts, looks, draw, dress, words)


def _spread_powers(widest: float) -> list[float]:
    """Return powers of ten up to the widest gap, so few that their labels fit below a panel."""
    first, last = round(math.log10(LEAST_GAP)), math.floor(math.log10(widest))
    step = -(-(last - first) // MOST_TICKS)
    return [10.0**power for power in range(first + step, last + 1, step)]


# Below this a clock of processors tells nothing.
LEAST_SECONDS = 1e-5


def timed_points(cases: Sequence[Case]) -> dict[str, list[tuple[int, float]]]:
    """Return tensors and seconds of each planner's timed cases, the slowest planner first."""
    points = {
        label: sorted(
            (case.facts.tensors, max(case.seconds, LEAST_SECONDS))
            for case in its
            if case.seconds is not None and case.facts.tensors > 0
        )
        for label, its in by_planner(cases).items()
    }
    shown = {label: its for label, its in points.items() if its}
    return dict(sorted(shown.items(), key=lambda entry: _typical(entry[1]), reverse=True))


def _typical(points: Sequence[tuple[int, float]]) -> float:
    return float(np.median([np.log(seconds) for _, seconds in points]))


def time_figure(
    points: Mapping[str, Sequence[tuple[int, float]]], looks: Mapping[str, Look]
) -> Figure:
    """Return the picture of the points of :func:`timed_points`."""

    def draw(axes: Any, label: str, look: Look) -> None:
        tensors, seconds = zip(*points[label], strict=True)
        axes.plot(tensors, seconds, **{**look, "linestyle": "none"}, markersize=4, alpha=0.8)

    def dress(axes: Any) -> None:
        logarithmic(axes, "x", count_text)
        logarithmic(axes, "y", seconds_text)

    texts = {label: label for label in points}
    return line_figure(texts, looks, draw, dress, ("tensors", "processor time"))


MOST_PANELS = 6
COLUMNS = 2
PANEL_INCHES = 2.3
MOST_TITLE_CHARACTERS = 40


@dataclass(frozen=True)
class AnytimeCurve:
    """The incumbents of a planner over time: seconds, and gaps to the best known peak."""

    label: str
    seconds: Sequence[float]
    gaps: Sequence[float]


def anytime_curves(cases: Sequence[Case]) -> dict[str, list[AnytimeCurve]]:
    """Return curves by instance; instances with the largest gain within a run come first."""
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

    If there are many planners, it shows those that end nearest to the best known peaks.
    """
    shown = dict(list(curves.items())[:MOST_PANELS])
    ends: dict[str, list[float]] = {}
    for curve in chain.from_iterable(shown.values()):
        ends.setdefault(curve.label, []).append(curve.gaps[-1])
    # A planner with curves on fewer instances ranks behind planners with curves on all.
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
        # The axis begins below 0, so that a line at 0 is seen.
        axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])
        axes.set_title(in_lines(instance, MOST_TITLE_CHARACTERS), fontsize=9, loc="left")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda gap, _: f"{100 * gap:.3g} %"))
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    of = f"; the best {len(best)} of {len(ends)} planners" if len(best) < len(ends) else ""
    figure.supxlabel(f"time since the run began{of}", fontsize=10)
    figure.supylabel("above the best known peak", fontsize=10)
    add_legend(figure, panels[: len(shown)])
    return figure
