"""Claims of papers: held against their own tables, against records, and against nothing."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from evaluation.report.slots import PageMaterial, fill
from evaluation.study.record import Record
from evaluation.study.study_file import FOLDER, find_study
from evaluation.tables.claim import Claim, claims_of
from evaluation.tables.evidence import JudgedClaim, judged_claims
from planners.errors import GaplessError, InstanceError
from tests.evaluation.study.made_up_records import record


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
        ('figure = "gap"\n', "", "page.claim.near: one of figure and says_why"),
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


PAPERS = ("paper-offsets", "paper-safety", "paper-stweaver", "paper-gmlake", "paper-vpmm")
GB = 10**9


def judged(study: str, *records: Record) -> dict[str, JudgedClaim]:
    material = PageMaterial(study, records or [record("another", "auto")], find_study(study).page)
    return {each.claim.key: each for each in judged_claims(material)}


@pytest.mark.parametrize(
    ("study", "key", "agreeing", "holds"),
    [
        # docs/paper-slips.md names the sentences that its tables contradict.
        ("paper-offsets", "many-objects-near", 9, False),
        ("paper-offsets", "first-fit-many", 9, True),
        ("paper-offsets", "first-fit-single", 9, True),
        ("paper-offsets", "unsafe-order", 2, True),
        ("paper-offsets", "many-objects-better", 2, True),
        ("paper-offsets", "many-objects-faster", 9, True),
        ("paper-offsets", "near-optimal", 10, True),
        ("paper-offsets", "framework", 2, True),
        # Of other orders, and of merged chains, it prints none.
        ("paper-offsets", "other-orders", 0, None),
        ("paper-offsets", "merged-chains", 0, None),
        ("paper-safety", "one-relation", 0, None),
        ("paper-safety", "least-saved", 10, True),
        ("paper-safety", "most-saved", 1, True),
        # 374 s is more than 6 minutes.
        ("paper-stweaver", "plan-seconds", 5, False),
        ("paper-gmlake", "fragmentation-left", 0, None),
    ],
)
def test_a_paper_against_its_own_tables(
    study: str, key: str, agreeing: int, holds: bool | None
) -> None:
    theirs = judged(study)[key].theirs
    assert (len(theirs.agreeing), theirs.holds) == (agreeing, holds)


@pytest.mark.parametrize(
    ("network", "above", "saved"),
    [
        ("BERT-nezha", 0.0005143, 0.4212),
        ("FaceRecognition", 0.0021657, 0.6422),
        ("Tiny-BERT", -0.0068681, 0.5567),
        ("MobileNetv2", 0.0008838, 0.7169),
    ],
)
def test_rows_of_errors_follow_from_the_tables(network: str, above: float, saved: float) -> None:
    found = judged("paper-offsets")
    assert found["many-objects-near"].theirs.figures[network] == pytest.approx(above, abs=1e-7)
    assert found["many-objects-fastest"].theirs.figures[network] == pytest.approx(saved, abs=1e-4)


SINGLE = [f"greedy-{order}-{fit}" for order in ("breadth", "size", "source", "unsafe")
          for fit in ("best", "first")]  # fmt: skip


def test_a_figure_of_planners_of_which_one_is_missing_is_not_measured() -> None:
    runs = [record("resnet-50", planner, 2 * GB) for planner in SINGLE]
    runs += [record("resnet-50", f"many-objects-size-{fit}", 3 * GB) for fit in ("best", "first")]
    assert judged("paper-offsets", *runs)["many-objects-near"].ours.figures == {"ResNet-50": 0.5}
    assert judged("paper-offsets", *runs[1:])["many-objects-near"].ours.figures == {}


def test_the_time_of_finding_unsafe_pairs_is_apart() -> None:
    runs = [record("resnet-50", planner, GB, processor_seconds=3.0) for planner in SINGLE]
    runs += [record("resnet-50", f"many-objects-size-{fit}", GB, processor_seconds=2.0)
             for fit in ("best", "first")]  # fmt: skip
    runs.append(record("resnet-50", "unsafe-pairs", GB, statistics={"seconds": 1.0}))
    found = judged("paper-offsets", *runs)["many-objects-fastest"].ours.figures
    assert found == {"ResNet-50": pytest.approx(0.5)}


@pytest.mark.parametrize("study", PAPERS)
def test_the_words_of_a_paper_can_be_filled_without_its_runs(study: str) -> None:
    page = find_study(study).page
    material = PageMaterial(study, [record("another", "greedy-size-first")], page)
    text = fill((FOLDER / f"{study}.md").read_text(encoding="utf-8"), material, study)
    assert "| not measured |" in text
    assert all(key in text for key in page["claim"])
    # What has nothing to show is left out, with its heading.
    has_reasons = any("says_why" in claim for claim in page["claim"].values())
    assert ("### What is not measured here" in text) == has_reasons


CLAIM = {"says": "s", "where": "w", "paper": "p", "figure": "peak", "at_most": 1.0}
EVIDENCE = {"case": "instance", "cases": ["a"], "figures": {"peak": "max(peak)"}}


def claims_of_page(claim: dict[str, Any], evidence: dict[str, Any]) -> str:
    words = {"claim": {"c": {**CLAIM, **claim}}, "evidence": {"e": {**EVIDENCE, **evidence}}}
    return fill("{claims}\n\n{claim-figures}", PageMaterial("x", [record("a", "auto")], words), "")


def test_what_is_false_stands_with_every_case() -> None:
    text = claims_of_page({"unit": "count"}, {"cases": ["a", "b"]})
    assert "| 12 | **false** |" in " ".join(text.split())
    assert "| a | **12** |" in " ".join(text.split())
    assert "**false**" not in claims_of_page({"at_most": 12.0}, {})


@pytest.mark.parametrize(
    ("claim", "evidence", "says"),
    [
        ({"figure": "peek"}, {}, r"page\.claim\.c\.figure: none is called 'peek'; .*peak"),
        ({"only": ["A"]}, {}, r"page\.claim\.c: no case is called 'A'; .*a"),
        ({}, {"cases": "a"}, r"page\.evidence\.e: field cases: a list is needed"),
        ({}, {"case": "instanc"}, r"page\.evidence\.e: field case: no column is called 'instanc'"),
        (
            {},
            {"figures": {"peak": "max("}},
            r"page\.evidence\.e: field figures\.peak: .* no formula",
        ),
        ({}, {"figure": {}}, r"page\.evidence\.e: field 'figure': unknown; .*figures"),
        ({}, {"figures": {"peak": "listed(planner)"}}, r"figure peak: a number is needed"),
    ],
)
def test_what_is_wrong_is_named(claim: dict[str, Any], evidence: dict[str, Any], says: str) -> None:
    with pytest.raises(GaplessError, match=says):
        claims_of_page(claim, evidence)


def test_claims_need_evidence() -> None:
    with pytest.raises(GaplessError, match=r"study x: page\.evidence is needed"):
        fill("{claims}", PageMaterial("x", [record("a", "auto")]), "words")
