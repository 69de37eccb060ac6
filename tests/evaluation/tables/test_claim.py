"""A claim of a file is read whole, and is true, false or not measured by its cases."""

from __future__ import annotations

import tomllib

import pytest

from evaluation.tables.claim import Claim, claims_of
from planners.errors import InstanceError


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


WHOLE = """\
[page.claim.near]
says = "near"
where = "table 1"
paper = "1 %"
figure = "gap"
at_most = 1
only = ["a"]
"""


def claims_in(text: str) -> tuple[Claim, ...]:
    return claims_of(tomllib.loads(text).get("page", {}))


def test_a_claim_is_read() -> None:
    (claim,) = claims_in(WHOLE)
    assert (claim.key, claim.at_most, claim.at_least, claim.only) == ("near", 1.0, None, ("a",))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('figure = "gap"\n', "", "page.claim.near: either a figure or says_why is needed"),
        ('figure = "gap"\n', 'figure = "gap"\nsays_why = "so"\n', "found both"),
        ("at_most = 1\n", "", "page.claim.near: at_least or at_most is needed, found neither"),
        ("at_most = 1\n", 'at_most = "1"\n', "page.claim.near: field at_most: a number is needed"),
        ('says = "near"\n', "", "page.claim.near: field says: missing"),
        ('says = "near"\n', 'says = ""\n', "page.claim.near: field says: a text is needed"),
        ("at_most", "at_mots", "page.claim.near: field 'at_mots': unknown; did you mean 'at_most'"),
        (
            'only = ["a"]',
            'only = "a"',
            "near: field only: a list of names of cases",
        ),
        ('only = ["a"]', 'unit = "percents"', "page.claim.near: field unit: one of percent, times"),
        (
            'only = ["a"]',
            "cases_needed = 0",
            "page.claim.near: field cases_needed: a whole number of at least 1",
        ),
        ('only = ["a"]', "of_mean = 1", "page.claim.near: field of_mean: true or false is needed"),
        ("[page.claim.near]", "[page]\nclaim = 1\n[near]", "page.claim: a table for each claim"),
        (
            "[page.claim.near]",
            "[page.claim]\nnear = 1\n[near]",
            "near: an object, or a table",
        ),
    ],
)
def test_a_mistake_is_named(before: str, after: str, message: str) -> None:
    assert before in WHOLE
    with pytest.raises(InstanceError) as raised:
        claims_in(WHOLE.replace(before, after))
    assert message in str(raised.value)
