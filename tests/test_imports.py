"""Who may import whom, read from the sources, and what an import loads, seen in a fresh process."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.repository import ROOT

# Each may import itself and what stands to its left.
PACKAGES = ("planners", "instances", "gpu_runtime", "evaluation")
# The same of the rooms of a package: what each may import of its package beside itself, by names in
# the package. All else in the package, its command lines, may import every room.
ROOMS = {
    "planners/text": "errors",
    "planners/safety": "_core errors model",
    "planners/model": "_core errors safety text",
    "planners/referee": "_core errors files model text",
    "planners/dynamic": "errors model",
    "planners/files": "dynamic entry_points errors first_use model referee registry text",
    "planners/command_line": "errors missing_core processes text version",
    "planners/reorder": "_core errors files late_exports model referee text",
    "planners/recompute": (
        "_core answers compare entry_points errors exact files "
        "first_use judged_run late_exports model processes referee registry text"
    ),
    "planners/waits": "_core compare errors judged_run model processes safety text",
    "planners/online": "answers errors model referee registry text",
    "planners/registry": "entry_points errors first_use model text",
    "planners/processes": "errors text",
    "planners/answers": "errors model processes registry text",
    "planners/greedy": "_core errors model registry",
    "planners/integrations": "errors judged_run model registry text version",
    "planners/exact": "_core errors greedy model processes registry",
    "planners/search": "_core exact greedy model registry",
    "instances/extract/own": "",
    "instances/extract/kernels": "extract.step_settings",
    "instances/extract/models": "extract.own extract.step_settings",
    "instances/extract/record": (
        "extract.kernels extract.models extract.own extract.step_settings traces"
    ),
    "instances/extract/record/requests": "extract.kernels traces",
    "instances/extract/record/gpu": "extract.record.requests",
    "instances/extract/record/graph": "extract.kernels extract.models extract.record.gpu",
    "instances/extract/record/ranks": "extract.own extract.record.requests",
    "instances/extract/partition": (
        "extract.kernels extract.models extract.record.graph extract.step_settings"
    ),
    "instances/extract/executorch": "catalogue extract.models",
    "evaluation/measuring": "",
    "evaluation/peers": "",
    "evaluation/plots": "",
    "evaluation/recordings": "",
    "evaluation/study": "measuring peers programs recordings",
    "evaluation/pages": "plots study",
    "gpu_runtime/allocator": "_core verification",
    "gpu_runtime/explaining": "_core allocator fitting online replaying",
    "gpu_runtime/fitting": "",
    "gpu_runtime/integrations": "allocator",
    "gpu_runtime/online": "_core allocator replaying",
    "gpu_runtime/repeating": "",
    "gpu_runtime/replaying": "_core allocator",
    "gpu_runtime/training": "allocator online",
    "evaluation/programs": "",
    "gpu_runtime/verification": "",
    "gpu_runtime/verification/devices": "verification.trials",
    "gpu_runtime/verification/trials": "",
}
# The frame of command lines stands above all rooms: only modules of commands import it.
FRAME = "planners.command_line."
COMMANDS = (
    "*/__main__.py", "*_command.py", "*_commands.py", "planners/command_line/*.py",
    "planners/completion.py", "planners/doctor.py", "planners/gapless.py",
    "gpu_runtime/explain.py", "gpu_runtime/fit.py", "gpu_runtime/replay.py", "gpu_runtime/train.py",
    "instances/extract/executorch/lowering.py",
)  # fmt: skip
# Imported inside the function that needs it, so that an import of ours stays quick and possible.
HEAVY = {
    "ortools", "pulp", "scipy", "torch", "transformers", "lightning", "pytorch_lightning",
    "matplotlib", "bokeh", "jinja2", "rich", "typer", "executorch", "onnx", "tflite",
}  # fmt: skip
# The programs, which `import planners` leaves alone, build their options from typer.
COMMAND_LINES = (
    "planners/recompute/recompute_command.py:", "planners/completion.py:",
    "planners/command_line/typer_frame.py:",
    "planners/compare/__main__.py:",
    "planners/referee/__main__.py:", "planners/reorder/reorder_command.py:",
)  # fmt: skip
# Never, not even inside a function.
NEVER = {
    "planners": {"torch", "transformers", "lightning", "pytorch_lightning", "matplotlib", "bokeh"},
    "instances": {"matplotlib", "bokeh"},
    "gpu_runtime": {"matplotlib", "bokeh"},
    "evaluation": set[str](),
}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.AST, *, at_import: bool) -> set[tuple[str, int]]:
    """Return the top-level packages a file imports, with lines.

    ``at_import`` leaves out what stands in a function, or under ``if TYPE_CHECKING``.
    """
    found: set[tuple[str, int]] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name.partition(".")[0], node.lineno) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add((node.module.partition(".")[0], node.lineno))
        elif not (at_import and runs_later(node)):
            found |= imported(node, at_import=at_import)
    return found


def runs_later(node: ast.AST) -> bool:
    """Return whether importing a file leaves this out."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def offenders(package: str, forbidden: set[str], *, at_import: bool) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(package)
        for name, line in sorted(imported(tree_of(path), at_import=at_import))
        if name in forbidden
    ]


def test_the_reader_of_imports_sees_them() -> None:
    tree = ast.parse(
        "import a.b as c, d\n"
        "from e.f import g\n"
        "from . import h\n"
        "if TYPE_CHECKING:\n    import i\n"
        "try:\n    import j\nexcept ImportError:\n    pass\n"
        "class K:\n    import l\n    def m(self):\n        from n import o\n"
        "async def p():\n    import q\n"
    )
    assert {name for name, _ in imported(tree, at_import=True)} == {"a", "d", "e", "j", "l"}
    assert {name for name, _ in imported(tree, at_import=False)} == set("adeijlnq")


def test_every_package_has_sources_where_it_exists() -> None:
    assert len(sources("planners")) > 15
    assert sources("instances")
    unknown = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {*PACKAGES, "tests"}
    assert not unknown, "a new package needs its place in PACKAGES"


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_lead_to_the_left(package: str) -> None:
    to_the_right = set(PACKAGES[PACKAGES.index(package) + 1 :]) | {"tests"}
    assert offenders(package, to_the_right, at_import=False) == []


def imported_modules(tree: ast.AST) -> set[tuple[str, int]]:
    """Return every name that a file imports in full, with lines."""
    found: set[tuple[str, int]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, node.lineno) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their package"
            found |= {(f"{node.module}.{alias.name}", node.lineno) for alias in node.names}
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_of_a_package_import_one_way(room: str) -> None:
    package = room.partition("/")[0]
    names = (room.replace("/", "."), *(f"{package}.{name}" for name in ROOMS[room].split()))
    allowed = tuple(f"{name}." for name in names)
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(room)
        if not path.relative_to(ROOT).match("*/__main__.py") and not path.match("*_command.py")
        for name, line in sorted(imported_modules(tree_of(path)))
        if name.startswith(f"{package}.") and not f"{name}.".startswith(allowed)
    ]
    assert sources(room)
    assert found == []


@pytest.mark.parametrize("package", PACKAGES)
def test_only_commands_import_the_frame_of_command_lines(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(package)
        if not any(path.relative_to(ROOT).match(command) for command in COMMANDS)
        for name, line in imported_modules(tree_of(path))
        if name.startswith(FRAME)
    ]
    assert found == []


def test_modules_form_no_circle() -> None:
    """Neither do imports inside functions and for types alone: whoever reads one follows them."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in sources(package)
    }
    imports = {
        module: {
            name if name in modules else name.rpartition(".")[0]
            for name, _ in imported_modules(tree_of(path))
            if not name.endswith("._core")
        }
        for module, path in modules.items()
    }
    left = {module: names & modules.keys() - {module} for module, names in imports.items()}
    # Neither end of a path is in a circle: what imports nothing, and what nothing imports.
    while ends := {
        module
        for module, names in left.items()
        if not names & left.keys() or not any(module in others for others in left.values())
    }:
        left = {module: names for module, names in left.items() if module not in ends}
    assert left == {}


def test_threads_can_import_planners_in_any_order() -> None:
    """Python locks a module before its package.

    So two threads wait for each other if one imports a module of a package, and the other one the
    package, which imports that module.
    """
    offending = []
    for start in (path for path in sources("planners") if path.name == "__init__.py"):
        package = ".".join(start.parent.relative_to(ROOT).parts) + "."
        at_once = [node for node in tree_of(start).body if isinstance(node, ast.ImportFrom)]
        if any(f"{node.module}.".startswith(package) for node in at_once):
            offending += [
                f"{path.relative_to(ROOT)}:{line} imports {name}"
                for other in PACKAGES
                for path in sources(other)
                for name, line in imported_modules(tree_of(path))
                if name.startswith(package) and "." in name.removeprefix(package)
                and not path.is_relative_to(start.parent)
            ]  # fmt: skip
    assert offending == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_never_imports_a_forbidden_one(package: str) -> None:
    assert offenders(package, NEVER[package], at_import=False) == []


def test_planners_import_heavy_packages_inside_functions() -> None:
    found = offenders("planners", HEAVY, at_import=True)
    assert [line for line in found if not line.startswith(COMMAND_LINES)] == []


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules that are loaded after a statement in a fresh process."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_import_planners_loads_nothing_heavy() -> None:
    loaded = loaded_by("from planners import Problem")
    assert {"planners", "numpy"} <= loaded
    assert loaded & (HEAVY | {*PACKAGES[1:], "highspy", "pytest"}) == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_loads_little_before_it_is_used(package: str) -> None:
    # Its programs answer Ctrl-C from then on.
    assert loaded_by(f"import {package}") & (HEAVY | {"numpy"}) == set()


def test_a_plan_is_made_and_judged_with_nothing_heavy_loaded() -> None:
    loaded = loaded_by(
        "from planners import Problem, bounds_of, check, place\n"
        "problem = Problem([1, 2], [0, 0], [1, 1])\n"
        "check(problem, place(problem))\n"
        "bounds_of(problem)"
    )
    assert loaded & HEAVY == set()
