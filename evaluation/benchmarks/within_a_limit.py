"""The page of steps that run within limits of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from evaluation.benchmarks.limited_steps import (
    AS_IT_IS,
    SHARES,
    LimitedModel,
    LimitedRun,
    MeasuredStep,
    run_apart,
)
from evaluation.report.figure_texts import milliseconds
from evaluation.report.slots import fill_template
from evaluation.study.surroundings import measured_now
from planners.command_line.progress_line import show_progress
from planners.text.plain_text import Markdown
from planners.text.table import Row, Table, columns_of

GIB = 1 << 30
# The words of the page, with places for figures.
WORDS = Path(__file__).with_name("within-a-limit.md")


def study_limits(
    models: Sequence[LimitedModel], device: str, repetitions: int, seconds: float
) -> Iterator[LimitedRun]:
    """Measure each model below PyTorch's allocator, and on a GPU below planned memory too."""
    for model in models:
        show_progress(f"{model.name}: below PyTorch's allocator")
        run = run_apart(model, device, repetitions, seconds)
        yield run
        if device == "cuda":
            show_progress(f"{model.name}: below planned memory")
            yield run_apart(model, device, repetitions, seconds, run)


def within_a_limit_page(runs: Sequence[LimitedRun], command: str) -> str:
    """Return the page of measured steps, as Markdown."""
    default = [run for run in runs if not run.is_planned]
    figures = {
        "command": f"`{command}`",
        "measured": measured_now(),
        "device": ", ".join(sorted({run.device for run in runs})),
        "settings": "; ".join(f"{run.model} ({_settings(run)})" for run in default),
        "shares": ", ".join(f"{share:.0%}" for share in SHARES),
        "default": _table(default),
        "planned": _table([run for run in runs if run.is_planned]) or "*Not run: it needs a GPU.*",
        "allowed": _allowed_table(default) or "*Not run: it needs a GPU.*",
        "refused": "\n".join(_refusals(default)),
    }
    fillers = {name: partial(str, text) for name, text in figures.items()}
    return fill_template(WORDS.read_text(encoding="utf-8"), fillers, WORDS)


def _settings(run: LimitedRun) -> str:
    return ", ".join(f"{name} {value}" for name, value in run.settings.items())


def _table(runs: Sequence[LimitedRun]) -> str:
    headings = [
        "model", "step", "again", "predicted GiB", "measured GiB", "off", "reserved GiB", "ms",
        "more ms", "by profile", "by rates", "bits", "planned",
    ]  # fmt: skip
    rows = [_row(run, step) for run in runs for step in run.steps if not step.refused]
    return _table_of(headings, rows)


def _row(run: LimitedRun, step: MeasuredStep) -> list[str]:
    more = step.seconds - run.steps[0].seconds
    predicted, is_limited = step.predicted_bytes, bool(step.decision)
    units = step.decision.get("unit", ())
    return [
        run.model,
        step.way,
        f"{sum(unit >= 0 for unit in units):,}" if is_limited else "",
        _gib(predicted) if predicted else "",
        _gib(step.peak_bytes),
        f"{step.peak_bytes / predicted - 1:+.2%}" if predicted else "",
        _gib(step.reserved_bytes) if step.reserved_bytes else "",
        milliseconds(step.seconds),
        "" if step.way == AS_IT_IS else f"{1e3 * more:+.1f}",
        f"{1e3 * step.profiled_seconds:+.1f}" if is_limited else "",
        f"{1e3 * step.predicted_seconds:+.1f}" if is_limited else "",
        "same" if step.same_bits else Markdown("**other**"),
        "yes" if step.is_planned else "",
    ]


def _allowed_table(runs: Sequence[LimitedRun]) -> str:
    rows = [
        [run.model, _gib(run.allowed_bytes), way, ending]
        for run in runs
        for way, ending in run.within_allowed.items()
    ]
    return _table_of(["model", "allowed GiB", "step", "ended"], rows)


def _refusals(runs: Sequence[LimitedRun]) -> list[str]:
    return [
        f"- {run.model} {step.way}: {step.refused}"
        for run in runs
        for step in run.steps
        if step.refused
    ]


def _table_of(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, the first column aligned left and the others right; empty without rows."""
    table = Table(columns_of(*headings), [Row(list(row)) for row in rows])
    return table.markdown() if rows else ""


def _gib(count: int) -> str:
    return f"{count / GIB:.3f}"
