"""Making an instance again: by our own generators alone, and the recorded one or a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.make import make, module_and_arguments
from instances.catalogue.update import facts_of
from instances.synthetic import neighbour_ring
from planners.errors import GaplessError, InstanceError
from planners.files.problem_file import problem_digest, read_gapless_json
from tests.instances.catalogue.entries import entry


def ring() -> CatalogueEntry:
    problem = neighbour_ring(3, seed=1)
    command = str(problem.origin["command"])
    return entry("ring", command=command, made_with="numpy 0.1", facts=facts_of(problem))


def test_a_command_names_a_module_of_ours_and_its_arguments() -> None:
    assert module_and_arguments(entry()) == ("instances.extract", ["toy", "--batch", "1"])
    quoted = entry(command="python -m instances synthetic 'a b'")
    assert module_and_arguments(quoted) == ("instances", ["synthetic", "a b"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "instance toy: no command is recorded"),
        ("rm -rf instances", "field command: `python -m instances...` is needed, found 'rm -rf"),
        ("python -m instances_of_others x", "`python -m instances...` is needed"),
        ("python -m", "`python -m instances...` is needed"),
        ("python -m instances 'x", "field command: No closing quotation"),
    ],
)
def test_nothing_else_is_run(command: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match=message):
        make(entry(command=command), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_instance_is_told_from_the_recorded_one(tmp_path: Path) -> None:
    other = replace(ring().facts, digest="sha256:" + "f" * 64)
    with pytest.raises(GaplessError, match=r"another instance .* made with numpy 0\.1, this with"):
        make(replace(ring(), facts=other), tmp_path)
    path = tmp_path / "ring.json.gz"
    path.write_bytes(b"what was there")
    with pytest.raises(GaplessError, match=r"; the file that is there stays$"):
        make(replace(ring(), facts=other), tmp_path)
    assert path.read_bytes() == b"what was there"
    assert list(tmp_path.iterdir()) == [path]
    make(ring(), tmp_path)
    assert problem_digest(read_gapless_json(path)) == ring().facts.digest


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    wrong = entry(command="python -m instances synthetic neighbour-ring --pairs 1")
    with pytest.raises(GaplessError, match="parameter pairs: 2 to 10000000 is needed, found 1"):
        make(wrong, tmp_path)
    with pytest.raises(InstanceError, match="the folder does not exist"):
        make(ring(), tmp_path / "none")
