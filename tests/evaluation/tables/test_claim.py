"""A claim is true, false or not measured, and never what the known cases do not say."""

from __future__ import annotations

import pytest

from evaluation.tables.claim import Claim


def claim(**fields: object) -> Claim:
    values = {"key": "c", "says": "s", "where": "w", "paper": "p", "figure": "f", "at_most": 0.3}
    return Claim(**(values | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "figures", "holds"),
    [
        ({}, {"a": 0.1, "b": 0.3}, True),
        ({}, {"a": 0.1, "b": 0.31}, False),
        ({"at_least": 0.2}, {"a": 0.1, "b": 0.3}, False),
        ({"at_least": 0.1}, {"a": 0.1, "b": 0.3}, True),
        # One that is off is enough, also where the others are not known.
        ({}, {"a": None, "b": 0.31}, False),
        ({}, {"a": None, "b": 0.1}, None),
        ({}, {"a": None}, None),
        ({}, {}, None),
        ({"cases_needed": 1}, {"a": 0.1, "b": 0.4}, True),
        ({"cases_needed": 1}, {"a": None, "b": 0.1}, True),
        ({"cases_needed": 1}, {"a": None, "b": 0.4}, None),
        ({"cases_needed": 2}, {"a": None, "b": 0.4}, False),
        ({"only": ("a",)}, {"a": 0.1, "b": 0.4}, True),
        ({"only": ("b",)}, {"a": 0.1, "b": 0.4}, False),
        ({"without": ("b",)}, {"a": 0.1, "b": 0.4}, True),
        ({"of_mean": True}, {"a": 0.1, "b": 0.4}, True),
        ({"of_mean": True}, {"a": 0.3, "b": 0.4}, False),
        ({"of_mean": True}, {"a": 0.1, "b": None}, None),
    ],
)
def test_a_claim_is_held_against_its_cases(
    fields: dict[str, object], figures: dict[str, float | None], holds: bool | None
) -> None:
    assert claim(**fields).judge(figures).holds is holds


def test_a_verdict_tells_of_the_cases_that_agree() -> None:
    verdict = claim(without=("d",)).judge({"a": 0.1, "b": 0.4, "c": None, "d": 0.1})
    assert verdict.figures == {"a": 0.1, "b": 0.4}
    assert verdict.agreeing == ("a",)
