"""Predicted and measured bytes of trainings, and how far they are apart."""

from __future__ import annotations

from evaluation.benchmarks.fits.fit_study import ROWS, FitFindings, FitStudy
from evaluation.benchmarks.worded_page import WordedPage
from planners.text.table import Row, Table, columns_of

# What a prediction is to keep to.
NEAR = 0.01
NEARLY = 0.03
NOTHING = "-"


def fit_page(study: FitStudy) -> WordedPage:
    """Show what a study found."""
    table = Table(
        columns_of("training", "allocator", "predicted", "measured", "difference", left=2),
        [row for its in study.findings.values() for row in _rows(its)],
    )
    figures = {
        "environment": "; ".join(f"{name} {value}" for name, value in study.environment.items()),
        "again": f"Predicted again on {study.predicted_again}." if study.predicted_again else "",
        "near": f"{NEAR:.0%}",
        "reach": "\n".join(_reach(study, limit) for limit in (NEAR, NEARLY)),
        "fits": table.markdown() if study.findings else "",
        "failures": "\n".join(
            f"- {model}, {label}: {message}"
            for model, its in study.findings.items()
            for label, message in its.failures.items()
        ),
    }
    return WordedPage("fit", study.command, figures, study.measured)


def _rows(findings: FitFindings) -> list[Row]:
    rows = []
    for row in ROWS:
        predicted, measured = findings.predicted.get(row), findings.measured.get(row)
        difference = findings.difference(row)
        text = NOTHING if difference is None else f"{difference:+.2%}"
        is_far = difference is not None and abs(difference) > NEAR
        first = f"`{findings.training}`" if row == ROWS[0] else ""
        cells = [first, row, _bytes(predicted), _bytes(measured)]
        rows.append(Row([*cells, f"**{text}**" if is_far else text]))
    return rows


def _bytes(size: int | None) -> str:
    return NOTHING if size is None else f"{size:,}"


def _reach(study: FitStudy, limit: float) -> str:
    """Return of how many trainings every allocator's reserved bytes are so near."""
    largest = {model: its.largest_difference for model, its in study.findings.items()}
    known = {model: far for model, far in largest.items() if far is not None}
    beyond = [model for model, far in known.items() if far > limit]
    rest = f"; not {', '.join(beyond)}" if beyond else ""
    return f"- within {limit:.0%}: {len(known) - len(beyond)} of {len(known)}{rest}"
