"""Explains the stages of a published plan in text and tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from planners.homosize.fusion import FusionAttempt
from planners.homosize.synthesis import Synthesis, fragmentation_of
from planners.text.byte_units import human_bytes
from planners.text.table import Row, Table, columns_of

# The most rows of a table. Long runs have a group for every microbatch, mostly alike.
MOST_ROWS = 20


def explain(synthesis: Synthesis) -> str:
    """Return a report of the result of every stage."""
    stages = (_groups(synthesis), _fusions(synthesis.trials), _layers(synthesis), _sums(synthesis))
    return "\n".join(line for stage in stages for line in stage) + "\n"


def _groups(synthesis: Synthesis) -> list[str]:
    singles = synthesis.plan.singles.count
    grouped = synthesis.requests.count - singles
    head = (
        f"HomoPhase groups: {len(synthesis.groups):,} of {grouped:,} requests; "
        f"{singles:,} requests stay single"
    )
    rows = [
        [_phases((group.phase_start, group.phase_end)), f"{group.requests.count:,}",
         human_bytes(group.size), f"{group.start} to {group.end}", _percent(group.product)]
        for group in synthesis.groups
    ]  # fmt: skip
    return [head, *_table(["phases", "requests", "bytes", "steps", "product"], rows)]


def _fusions(trials: Sequence[FusionAttempt]) -> list[str]:
    accepted = sum(trial.accepted for trial in trials)
    head = f"Fusion of adjacent groups: {accepted:,} of {len(trials):,} trials accepted"
    rows = [
        [_phases(trial.host_phases), _phases(trial.guest_phases), human_bytes(trial.host_size),
         human_bytes(trial.guest_size), human_bytes(trial.fused_size), _percent(trial.before),
         _percent(trial.after), "yes" if trial.accepted else "no"]
        for trial in sorted(trials, key=lambda trial: not trial.accepted)
    ]  # fmt: skip
    headings = [
        "host", "guest", "bytes", "and bytes", "fused", "product before", "after", "accepted",
    ]  # fmt: skip
    return [head, *_table(headings, rows)]


def _layers(synthesis: Synthesis) -> list[str]:
    plan = synthesis.plan
    inserted = np.zeros(len(plan.size), dtype=np.bool_)
    inserted[plan.inserted] = True
    head = (
        f"HomoSize layers: {len(plan.layer_size):,} for {len(plan.size):,} groups and single "
        f"requests, of which {int(inserted.sum()):,} lie in layers of larger ones"
    )
    rows = []
    for size in np.unique(plan.size)[::-1].tolist():
        of_size = plan.size == size
        rows.append(
            [human_bytes(size), f"{int(of_size.sum()):,}", f"{int((of_size & inserted).sum()):,}",
             f"{int((plan.layer_size == size).sum()):,}"]
        )  # fmt: skip
    return [head, *_table(["size", "units", "inserted", "layers"], rows)]


def _sums(synthesis: Synthesis) -> list[str]:
    fragmentation = fragmentation_of(synthesis)
    used, in_groups, in_layers = (
        human_bytes(fragmentation.mean_bytes(share))
        for share in (fragmentation.used, fragmentation.in_groups, fragmentation.in_layers)
    )
    return [
        f"Of {human_bytes(synthesis.plan.peak)}, on average over time: {used} used, "
        f"{in_groups} in bubbles within groups, {in_layers} in bubbles within layers"
    ]


def _phases(phases: tuple[int, int]) -> str:
    return f"{phases[0]} to {phases[1]}"


def _percent(share: Fraction) -> str:
    return f"{float(share):.2%}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    table = Table(columns_of(*headings, left=0), [*map(Row, rows)])
    return table.plain("  ", MOST_ROWS).splitlines()
