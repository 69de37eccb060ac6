"""Claims of papers: held against their own tables, against records, and against nothing."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.pages.claim import Condition, PaperClaim, claims_of
from evaluation.pages.evidence import JudgedClaim, judged_claims
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.slots import fill
from evaluation.study.record import Record
from evaluation.study.study_file import FOLDER, find_study
from planners.errors import GaplessError, InstanceError
from tests.evaluation.study.made_up_records import record


def claim(comparison: str) -> PaperClaim:
    return PaperClaim("c", "s", "w", "p", Condition.read(comparison))


@pytest.mark.parametrize(
    ("comparison", "figures", "holds"),
    [
        ("f <= 30 %", {"a": 0.1, "b": 0.3}, True),
        ("f <= 30 %", {"a": 0.1, "b": 0.31}, False),
        ("f < 0.3", {"a": 0.1, "b": 0.3}, False),
        ("f > 0", {"a": 0.0, "b": 0.3}, False),
        ("f within 20 to 30 %", {"a": 0.1, "b": 0.3}, False),
        ("f within 10 to 30 %", {"a": 0.1, "b": 0.3}, True),
        ("f is yes", {"a": 1.0, "b": 0.0}, False),
        # One that is off is enough, also where the others are not known.
        ("f <= 30 %", {"a": None, "b": 0.31}, False),
        ("f <= 30 %", {"a": None, "b": 0.1}, None),
        ("f <= 30 %", {"a": None}, None),
        ("f <= 30 %", {}, None),
        ("1 of f <= 30 %", {"a": None, "b": 0.1}, True),
        ("1 of f <= 30 %", {"a": None, "b": 0.4}, None),
        ("2 of f <= 30 %", {"a": None, "b": 0.4}, False),
        ("f <= 30 % in a", {"a": 0.1, "b": 0.4}, True),
        ("f <= 30 % in b", {"a": 0.1, "b": 0.4}, False),
        ("f <= 30 % but b, c", {"a": 0.1, "b": 0.4, "c": 0.5}, True),
        ("mean of f <= 30 %", {"a": 0.1, "b": 0.4}, True),
        ("mean of f <= 30 %", {"a": 0.3, "b": 0.4}, False),
        ("mean of f <= 30 %", {"a": 0.1, "b": None}, None),
    ],
)
def test_a_claim_is_held_against_its_cases(
    comparison: str, figures: dict[str, float | None], holds: bool | None
) -> None:
    assert claim(comparison).judge(figures).holds is holds


def test_a_verdict_tells_of_the_cases_that_agree() -> None:
    verdict = claim("f <= 30 % but d").judge({"a": 0.1, "b": 0.4, "c": None, "d": 0.1})
    assert verdict.figures == {"a": 0.1, "b": 0.4}
    assert verdict.agreeing == ("a",)


ROW = ["near", "it is near", "table 1", "1 %", "gap <= 1 % in a"]


def test_a_claim_is_read() -> None:
    (read,) = claims_of({"claims": [ROW]})
    rule = Condition("gap", "<=", 0.01, unit="%", only=("a",))
    assert read == PaperClaim("near", "it is near", "table 1", "1 %", rule)
    (unmeasured,) = claims_of({"claims": [[*ROW[:4], "not measured: no GPU"]]})
    assert (unmeasured.condition, unmeasured.reason) == (None, "no GPU")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW[:4]], "page.claims, near: name, sentence, section, figure and comparison are needed"),
        ([["near", "", *ROW[2:]]], "page.claims, near: name, sentence, section"),
        ([[*ROW[:4], "gap"]], "page.claims, near: field comparison: FIGURE SIGN NUMBER"),
        ([[*ROW[:4], "gap <= 1 percent"]], "found 'gap <= 1 percent'"),
        ([[*ROW[:4], "gap <= 1 to 2 %"]], "found 'gap <= 1 to 2 %'"),
        ([[*ROW[:4], "0 of gap <= 1 %"]], "found '0 of gap <= 1 %'"),
        ([[*ROW[:4], "not measured: "]], "found 'not measured: '"),
        ([[*ROW[:4], 1]], "page.claims: field"),
        (1, "page.claims: a list is needed"),
    ],
)
def test_a_mistake_is_named(rows: object, message: str) -> None:
    with pytest.raises(InstanceError) as raised:
        claims_of({"claims": rows})
    assert message in str(raised.value)


PAPERS = (
    "paper-offsets", "paper-safety", "paper-stweaver", "paper-gmlake", "paper-vpmm",
    "paper-pytorch-allocator",
)  # fmt: skip
GB = 10**9


def judged(study: str, *records: Record) -> dict[str, JudgedClaim]:
    material = PageMaterial(study, records or [record("another", "auto")], find_study(study).page)
    return {each.claim.key: each for each in judged_claims(material)}


@pytest.mark.parametrize(
    ("study", "key", "agreeing", "holds"),
    [
        # docs/bibliography.md names the sentences that its tables contradict.
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
    assert " not measured |" in text
    assert all(claim[0] in text for claim in page["claims"])
    # What has nothing to show is left out, with its heading.
    has_reasons = any(claim[-1].startswith("not measured") for claim in page["claims"])
    assert ("### What is not measured here" in text) == has_reasons


EVIDENCE = {"case": "instance", "cases": ["a"], "figures": {"peak": "max(peak)"}}


def claims_of_page(comparison: str, evidence: dict[str, Any], *unlike: str) -> str:
    claims = [["c", "s", "w", "p", comparison, *unlike]]
    words = {"claims": claims, "evidence": {"e": {**EVIDENCE, **evidence}}}
    return fill("{claims}\n\n{claim-figures}", PageMaterial("x", [record("a", "auto")], words), "")


def test_a_false_claim_is_shown_with_every_case() -> None:
    text = " ".join(claims_of_page("peak <= 1", {"cases": ["a", "b"]}).split())
    assert "| 12 | **false**, on 1 run only |" in text
    assert "| a | **12** |" in text
    assert "**false**" not in claims_of_page("peak <= 12", {})
    assert "not on our runs, on 1 run only" in claims_of_page("peak <= 1", {}, "on our runs")
    assert "   12 | not measured |" in claims_of_page("peak <= 1", {}, "not measured: a time")


def test_a_verdict_on_few_runs_says_so() -> None:
    cases = ["a", "b", "c", "d", "e"]
    evidence = {"e": {**EVIDENCE, "cases": cases}}
    words = {"claims": [["c", "s", "w", "p", "peak <= 20"]], "evidence": evidence}
    for count, says in ((4, "not measured |"), (5, "true |")):
        records = [record(case, "auto", instance_digest=case) for case in cases[:count]]
        text = " ".join(fill("{claims}", PageMaterial("x", records, words), "").split())
        assert says in text


@pytest.mark.parametrize(
    ("comparison", "evidence", "says"),
    [
        ("peek <= 1", {}, r"page\.claims, c: no figure is called 'peek'; .*peak"),
        ("peak <= 1 in A", {}, r"page\.claims, c: no case is called 'A'; .*a"),
        ("peak <= 1", {"cases": "a"}, r"page\.evidence\.e: field cases: a list is needed"),
        ("peak <= 1", {"case": "instanc"}, r"page\.evidence\.e: .*\"instanc\" not found"),
        ("peak <= 1", {"figures": {"peak": "max("}}, r"page\.evidence\.e: .*Parser Error"),
        ("peak <= 1", {"figure": {}}, r"page\.evidence\.e: field 'figure': unknown; .*figures"),
        ("peak <= 1", {"figures": {"peak": "list(planner)"}}, r"figure peak: a number is needed"),
    ],
)
def test_each_fault_is_named(comparison: str, evidence: dict[str, Any], says: str) -> None:
    with pytest.raises(GaplessError, match=says):
        claims_of_page(comparison, evidence)


def test_claims_need_evidence() -> None:
    with pytest.raises(GaplessError, match=r"study x: page\.evidence is needed"):
        fill("{claims}", PageMaterial("x", [record("a", "auto")]), "words")
