"""Folders and files of a user's whose names are those of our packages, seen in fresh processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import gpu_runtime._core
import planners._core
from gapless_siblings import PACKAGES
from tests.repository import ROOT

# As the script `gapless` of the environment.
GAPLESS = ("-P", "-c", "from gapless_siblings import gapless; gapless()")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of our packages that is found as site-packages are: behind the script's."""
    site = tmp_path_factory.mktemp("site")
    (site / "gapless_siblings.py").symlink_to(ROOT / "gapless_siblings.py")
    for package in PACKAGES:
        (site / package).mkdir()
        for path in (ROOT / package).iterdir():
            (site / package / path.name).symlink_to(path)
    for core in (planners._core, gpu_runtime._core):
        path = Path(str(core.__file__))
        (site / core.__name__.partition(".")[0] / path.name).symlink_to(path)
    return site


@pytest.fixture(params=["editable", "wheel"])
def path(request: pytest.FixtureRequest) -> str:
    """Return what PYTHONPATH is where Gapless is installed in one way or the other."""
    return "" if request.param == "editable" else str(request.getfixturevalue("wheel"))


def occupy(folder: Path, name: str, kind: str) -> None:
    """Put modules of the user's under a name of ours."""
    if kind == "data":
        (folder / name).mkdir()
        (folder / name / "some.json").write_text("{}")
        return
    if kind == "module":
        (folder / f"{name}.py").write_text(f"def late():\n    return {name!r}\n")
        return
    (folder / name / "metrics").mkdir(parents=True)
    if kind == "package":
        (folder / name / "__init__.py").write_text("from .metrics import late\n")
    # The function imports when it is called.
    (folder / name / "metrics" / "__init__.py").write_text(
        f"def late():\n    from {name}.metrics import later\n    return later.VALUE\n"
    )
    (folder / name / "metrics" / "later.py").write_text(f"VALUE = {name!r}\n")


def importing(kind: str, names: Sequence[str] = PACKAGES) -> str:
    """Return code of a user's that imports what lies under names of ours, and checks it."""
    lines = (
        f"from {name}{'' if kind == 'module' else '.metrics'} import late as {name}_late\n"
        f"assert {name}_late() == {name!r}\n"
        for name in names
    )
    return "".join(lines)


def run(path: str, folder: Path, *words: str) -> str:
    """Return what a Python program prints, where all goes well and nothing is complained about."""
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


KINDS = pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("editable", "package"),
        ("wheel", "namespace"),
        ("editable", "module"),
        ("wheel", "module"),
    ],
    indirect=["path"],
)


@KINDS
def test_a_program_that_has_nothing_to_do_with_gapless(
    path: str, tmp_path: Path, kind: str
) -> None:
    for name in PACKAGES:
        occupy(tmp_path, name, kind)
    (tmp_path / "plain.py").write_text(
        f"{importing(kind)}import sys\nassert not any('_core' in name for name in sys.modules)\n"
    )
    run(path, tmp_path, "plain.py")
    if kind != "module":
        (tmp_path / "evaluation" / "run.py").write_text("print('mine')\n")
        assert run(path, tmp_path, "-m", "evaluation.run") == "mine\n"


@KINDS
def test_our_packages_find_each_other_in_a_users_program(
    path: str, tmp_path: Path, kind: str
) -> None:
    """The user's are imported before ours, between and after; ours import late, too."""
    mine = ("planners", "instances", "evaluation")
    for name in mine:
        occupy(tmp_path, name, kind)
    (tmp_path / "train.py").write_text(
        f"{importing(kind, mine[1:])}"
        "from gpu_runtime import PlannedMemory\n"
        "PlannedMemory(planner='greedy-size-first')\n"
        "import gpu_runtime.replaying.static_profile, gpu_runtime.commands\n"
        "from gpu_runtime.allocator.step_problem import step_problem\n"
        f"{importing(kind, mine)}"
    )
    run(path, tmp_path, "train.py")


@KINDS
def test_commands_run_beside_folders_of_these_names(path: str, tmp_path: Path, kind: str) -> None:
    for name in PACKAGES:
        occupy(tmp_path, name, kind)
    instance = str(ROOT / "instances" / "tiny-bert.json.gz")
    words = (instance, "--planners", "naive")
    on_path = os.pathsep.join(filter(None, (str(tmp_path), path)))
    assert "feasible" in run(on_path, tmp_path, *GAPLESS, "compare", *words)
    assert "feasible" in run(path, tmp_path, "-m", "gapless_siblings", "planners.compare", *words)
    shutil.rmtree(tmp_path / "planners", ignore_errors=True)
    (tmp_path / "planners.py").unlink(missing_ok=True)
    assert "feasible" in run(path, tmp_path, "-m", "planners.compare", *words)


def test_a_folder_of_data_hides_nothing(path: str, tmp_path: Path) -> None:
    for name in PACKAGES:
        occupy(tmp_path, name, "data")
    (tmp_path / "train.py").write_text(
        "import evaluation.commands, instances.commands\n"
        "from gpu_runtime import PlannedMemory\nfrom planners import get, place\n"
        "import builtins, sys\nget('auto')\n"
        # Nothing is replaced in a program where no name is taken.
        "assert type(builtins.__import__) is type(len)\n"
        "assert 'find_ours' not in str(sys.meta_path)\n"
    )
    run(path, tmp_path, "train.py")
    assert "usage" in run(path, tmp_path, "-m", "instances", "--help").lower()


SCRIPT = """
import torch
from torch import nn

def make_step(batch: int = 8):
    {late}
    model = nn.Linear(64, 64)
    x = torch.randn(batch, 64)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def step():
        {late}
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return step

if __name__ == "__main__":
    {late}
    model = nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(9):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        {late}
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("path", "kind"), [("editable", "package"), ("wheel", "namespace")], indirect=["path"]
)
def test_commands_that_run_the_users_code(path: str, tmp_path: Path, kind: str) -> None:
    """The folders lie beside the script, or where the script says."""
    beside, below, plain = (
        tmp_path / folder / "train.py" for folder in ("beside", "below/scripts", "plain")
    )
    mine = importing(kind).replace("\n", "; ").rstrip("; ")
    # The import system knows nothing of a function that imports.
    first = "__import__('importlib').import_module('evaluation')\n"
    head = f"__import__('sys').path.insert(0, {str(below.parents[1])!r})\n"
    for script, folder, code in (
        (beside, beside.parent, first + SCRIPT.format(late=mine)),
        (below, below.parents[1], head + SCRIPT.format(late=mine)),
        (plain, None, SCRIPT.format(late="pass")),
    ):
        script.parent.mkdir(parents=True)
        script.write_text(code)
        for name in PACKAGES if folder else ():
            occupy(folder, name, kind)
    of_script = [
        json.loads(run(path, script.parent, *GAPLESS, "fit", "train.py", "--json"))["peak"]
        for script in (beside, below, plain)
    ]
    assert of_script == of_script[:1] * 3
    run(path, beside.parent, *GAPLESS, "extract", "train.py:make_step", "-o", "step.json")


def test_sources_without_a_core_say_which_gapless_is_installed(tmp_path: Path) -> None:
    for source in [ROOT / "gapless_siblings.py", *(ROOT / "planners").rglob("*.py")]:
        copy = tmp_path / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    # As an environment without the cores of an editable installation.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "planners.compare"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: the C++ core of Gapless is not built in {tmp_path} (No module named"
    )
    assert done.stderr.endswith(f"build it with: pip install -e {tmp_path}\n")
