"""Folders and files of a user's whose names are those of our packages, seen in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpu_runtime._core
import planners._core
from tests.repository import ROOT

PACKAGES = ("planners", "instances", "gpu_runtime", "evaluation")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of our packages that is found as site-packages are: behind the script's."""
    site = tmp_path_factory.mktemp("site")
    for package in PACKAGES:
        (site / package).mkdir()
        for path in (ROOT / package).iterdir():
            (site / package / path.name).symlink_to(path)
    for core in (planners._core, gpu_runtime._core):
        path = Path(str(core.__file__))
        (site / core.__name__.partition(".")[0] / path.name).symlink_to(path)
    # An editable installation finds our packages before any folder.
    (site / "sitecustomize.py").write_text(
        "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'Redirect' not in str(f)]\n"
    )
    return site


def occupy(folder: Path, name: str, kind: str) -> Path:
    """Put something of the user's under a name of ours, and return it."""
    place = folder / (f"{name}.py" if kind == "module" else name)
    if kind != "module":
        place.mkdir()
    if kind != "namespace":
        (place if kind == "module" else place / "__init__.py").write_text("MINE = 1\n")
    return place


def run(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["package", "module"])
def test_planned_memory_needs_nothing_of_instances_and_evaluation(
    installed: Path, tmp_path: Path, kind: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text("from gpu_runtime import PlannedMemory\nPlannedMemory()\n")
    for name in ("instances", "evaluation"):
        occupy(tmp_path, name, kind)
    done = run(installed, tmp_path, "train.py")
    assert (done.returncode, done.stderr) == (0, "")
    place = occupy(tmp_path, "planners", kind)
    last = run(installed, tmp_path, "train.py").stderr.splitlines()[-1]
    assert last.startswith("ImportError: Gapless needs its package 'planners'")
    assert f"{place}; rename that one" in last
    assert f"behind {installed}" in last


@pytest.mark.parametrize(("name", "kind"), [("planners", "module"), ("instances", "namespace")])
def test_packages_say_whose_a_sibling_is_within_pytest(
    installed: Path, tmp_path: Path, name: str, kind: str
) -> None:
    place = occupy(tmp_path, name, kind)
    (tmp_path / "test_mine.py").write_text(
        "def test_it():\n    import gpu_runtime.train, instances, evaluation\n"
    )
    done = run(installed, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0")
    # Ours is a package, and comes before any namespace.
    assert done.returncode == int(kind != "namespace"), done.stdout
    assert (f"another of this name: {place}" in done.stdout) == (kind != "namespace")


@pytest.mark.parametrize(
    ("name", "kind"), [("planners", "module"), ("instances", "package"), ("gpu_runtime", "package")]
)
def test_a_command_line_says_it_in_one_line(
    installed: Path, tmp_path: Path, name: str, kind: str
) -> None:
    place = occupy(tmp_path, name, kind)
    program = "evaluation.study" if name == "gpu_runtime" else "gpu_runtime.train"
    done = run(installed, tmp_path, "-m", program, "bert-base")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: Gapless needs its package {name!r}")
    assert str(place) in done.stderr


def test_what_another_package_offers_is_left_out_in_one_line(
    installed: Path, tmp_path: Path
) -> None:
    place = occupy(tmp_path, "instances", "package")
    instance = ROOT / "instances" / "bert.json"
    words = ("planners.compare", str(instance), "--planners", "naive")
    done = run(installed, tmp_path, "-m", *words)
    assert done.returncode == 0
    assert done.stderr.count("of instances is left out") == 1
    assert str(place) in done.stderr


def test_sources_without_a_core_say_which_gapless_is_installed(tmp_path: Path) -> None:
    for path in (ROOT / "planners").rglob("*.py"):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'Redirect' not in str(f)]\n"
    )
    done = run(tmp_path, tmp_path, "-m", "planners.compare")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: the C++ core of Gapless is not built in {tmp_path} (No module named"
    )
    assert done.stderr.endswith(f"build it with: pip install -e {tmp_path}\n")
