"""What a planner took from its own Python objects to the plan, ours or another package's."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from evaluation.study.record import Record

Measure = Callable[[Record], float | None]


def planning_seconds(record: Record) -> float | None:
    """Return processor seconds; None where the run was not timed or did not end."""
    if not record.timed:
        return None
    return _told(record, "placing_seconds", record.processor_seconds)


def planning_bytes(record: Record) -> float | None:
    """Return the bytes that planning added to resident memory at its peak."""
    return _told(record, "placing_bytes", record.peak_resident_bytes)


def values_of(records: Iterable[Record], measure: Measure) -> list[float]:
    """Return what is known of some runs."""
    return [value for record in records if (value := measure(record)) is not None]


def is_of(record: Record, planner: str) -> bool:
    """Return whether a run is of a planner with the settings that are named, NAME:KEY=VALUE."""
    name, *settings = planner.split(":")
    return record.planner == name and all(
        str(record.parameters.get(key)) == value
        for key, _, value in (setting.partition("=") for setting in settings)
    )


def _told(record: Record, name: str, otherwise: float | None) -> float | None:
    """Return the planner's own figure, which leaves out what brings a problem to its objects."""
    told = record.statistics.get(name)
    return otherwise if told is None else float(told)
