"""Families and optima come from the catalogue, by the digest of the problem, not by its name."""

from __future__ import annotations

import pytest

from evaluation.findings.studied_instances import studied_instances
from evaluation.report.slots import PageMaterial
from evaluation.study.gaps import ContradictionError
from evaluation.study.record import Record
from instances.catalogue.catalogue_file import read_catalogue
from planners.errors import InstanceError
from tests.evaluation.study.made_up_records import record

CATALOGUE = read_catalogue()
GUILLOTINE = CATALOGUE["synthetic-guillotine-60"]
OPTIMUM = 2_097_152


def of_catalogue(name: str, planner: str, peak: int, bound: int, tensors: int = 5) -> Record:
    digest = CATALOGUE[name].facts.digest
    return record(
        f"my {name}", planner, peak, instance_digest=digest, bounds={"lifetime": bound},
        tensors=tensors,
    )  # fmt: skip


def material(*records: Record, **words: object) -> PageMaterial:
    return PageMaterial("made-up", records, words)


def test_instances_of_a_family_stand_together() -> None:
    found = studied_instances(
        material(
            of_catalogue("bert", "auto", 12, 10),
            record("drawn", "auto", family="guillotine-packing"),
            of_catalogue("resnet-50", "auto", 12, 10),
            record("mine.json", "auto"),
        )
    )
    assert [(its.facts.instance, its.family) for its in found] == [
        ("my bert", "extracted graph"),
        ("my resnet-50", "extracted graph"),
        ("drawn", "guillotine-packing"),
        ("mine.json", "files"),
    ]
    assert [its.entry is None for its in found] == [False, False, True, True]


def test_a_family_of_both_sizes_is_two() -> None:
    runs = (
        of_catalogue("bert", "auto", 12, 10, tensors=101),
        of_catalogue("resnet-50", "auto", 12, 10, tensors=100),
        record("drawn", "auto", family="guillotine-packing", tensors=500),
    )
    families = [its.family for its in studied_instances(material(*runs, small_tensors=100))]
    assert families == ["extracted graph, small", "extracted graph, large", "guillotine-packing"]


def test_an_optimum_may_be_known_that_no_run_reached() -> None:
    (its,) = studied_instances(
        material(of_catalogue(GUILLOTINE.name, "auto", 2 * OPTIMUM, OPTIMUM // 2))
    )
    assert its.facts.optimum == OPTIMUM
    assert not its.is_solved
    assert not its.is_open
    assert (its.gap_left, its.gaps(its.cases[0]).to_optimum) == (3.0, 1.0)


def test_what_meets_it_is_solved_without_a_proof() -> None:
    (its,) = studied_instances(
        material(of_catalogue(GUILLOTINE.name, "auto", OPTIMUM, OPTIMUM // 2))
    )
    assert its.is_solved
    assert its.gap_left == 1.0


def test_a_plan_below_it_makes_no_page() -> None:
    with pytest.raises(ContradictionError, match=r"below .* 2,097,152, found .* 2,097,151 by a"):
        studied_instances(material(of_catalogue(GUILLOTINE.name, "auto", OPTIMUM - 1, 1)))


def test_an_instance_without_a_plan_is_open() -> None:
    (its,) = studied_instances(material(record("hard", "auto", None)))
    assert its.is_open
    assert not its.is_solved
    assert its.gap_left is None
    assert its.best_of("auto") is None


@pytest.mark.parametrize("small", ["1000", -1, True])
def test_small_is_a_number(small: object) -> None:
    with pytest.raises(InstanceError, match=r"page\.small_tensors: a whole number"):
        studied_instances(material(record("a", "auto"), small_tensors=small))
