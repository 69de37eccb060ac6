"""What ExecuTorch has to place for a network is what its own planner is given."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from instances.catalogue.catalogue_file import FOLDER, read_catalogue
from instances.extract.__main__ import main
from instances.extract.executorch.lowering import extract_memory
from instances.extract.executorch.networks import NETWORKS
from planners.errors import InstanceError, MissingDependencyError
from planners.files.problem_file import problem_digest, read_gapless_json

LOWERED = {
    name: entry for name, entry in read_catalogue().items() if entry.kind == "lowered program"
}


def test_every_network_is_in_the_catalogue_and_the_other_way_round() -> None:
    assert LOWERED.keys() == {f"executorch-{name}" for name in NETWORKS}


@pytest.mark.parametrize("name", LOWERED)
def test_an_entry_says_what_builds_the_network(name: str) -> None:
    entry, network = LOWERED[name], NETWORKS[name.removeprefix("executorch-")]
    assert entry.origin == network.source
    assert read_gapless_json(FOLDER / entry.file).alignment.tolist() == [16] * entry.facts.tensors


def test_an_unknown_network_is_known_at_once() -> None:
    with pytest.raises(InstanceError, match=r"'resnet-19'.*'resnet-18'"):
        extract_memory("resnet-19")


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("executorch.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "executorch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'gapless\[executorch\]'"):
        extract_memory("bert-tiny")


@pytest.mark.executorch
def test_a_command_makes_the_instance_again(tmp_path: Path) -> None:
    output = tmp_path / "executorch-unet.json.gz"
    with pytest.raises(SystemExit) as ended:
        main(["executorch", "unet", "-o", str(output)])
    assert ended.value.code == 0
    found = read_gapless_json(output)
    assert problem_digest(found) == LOWERED["executorch-unet"].facts.digest
    assert (found.name, found.origin["image"]) == ("executorch-unet", 256)
