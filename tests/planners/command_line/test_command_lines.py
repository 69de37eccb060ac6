"""All command lines end alike: from their first import on, and whatever goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from evaluation.study.__main__ import app as study
from gpu_runtime.fit import app as fit
from gpu_runtime.replay import app as replay
from gpu_runtime.train import app as train
from gpu_runtime.verify_command import app as verify
from instances.__main__ import app as instances
from instances.convert.__main__ import app as convert
from instances.extract.__main__ import app as extract
from instances.extract.trace_command import app as trace
from instances.synthetic.family_commands import app as synthetic
from planners import Problem, read_problem, write_problem
from planners.command_line.typer_frame import CommandLine
from planners.compare.__main__ import app as compare
from planners.doctor import app as doctor
from planners.errors import GaplessError
from planners.processes import interrupt, standard_output
from planners.processes.interrupt import Interrupt
from planners.referee.__main__ import app as referee
from tests.installed_package import install
from tests.repository import ROOT

PATIENCE_SECONDS = 60

APPS = {
    "compare": compare, "convert": convert, "doctor": doctor, "extract": extract, "fit": fit,
    "instances": instances, "referee": referee, "replay": replay, "study": study,
    "synthetic": synthetic, "trace": trace, "train": train, "verify": verify,
}  # fmt: skip
MODULES = (
    "evaluation.study", "gpu_runtime.fit", "gpu_runtime.train",
    "gpu_runtime.replay", "instances", "instances.convert", "instances.extract",
    "planners.compare",
    "planners.referee",
)  # fmt: skip
SCRIPTS = ("gapless",)
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
LINE = {
    signal.SIGINT: "interrupted\n",
    signal.SIGTERM: "interrupted by SIGTERM\n",
    signal.SIGHUP: "interrupted by SIGHUP\n",
}

# Two planners of an installed package; each says when it runs, and waits for the signal.
PLANNERS = """
import signal, sys, planners

@planners.register("lost")
def lost(problem, budget):
    print("started", file=sys.stderr, flush=True)
    signal.pause()

@planners.register("kept")
def kept(problem, budget):
    try:
        print("started", file=sys.stderr, flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    return planners.place(problem)
"""


def start(command: list[str | Path], site: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(site)}, preexec_fn=hear_signals,  # noqa: PLW1509
    )  # fmt: skip


def hear_signals() -> None:
    """Let a child end by signals that ``nohup`` has this process ignore."""
    for number in STATUS:
        signal.signal(number, signal.SIG_DFL)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder of installed packages, with one that offers planners."""
    install(tmp_path / "site", "waiting", PLANNERS, "gapless.planners", "waiting = waiting")
    return tmp_path / "site"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Return the file of a problem with lifetimes and phases."""
    path = tmp_path / "toy.json"
    write_problem(Problem([4, 2], [0, 1], [2, 3], name="toy"), path)
    return path


def programs() -> list[list[str]]:
    scripts = [[str(Path(sys.executable).with_name(name))] for name in SCRIPTS]
    return [*([sys.executable, "-m", module] for module in MODULES), *scripts]


@pytest.mark.parametrize("program", programs(), ids=[*MODULES, *SCRIPTS])
def test_ctrl_c_in_the_first_import_is_one_line(program: list[str], tmp_path: Path) -> None:
    # The first of the packages that take long; the interrupt comes while it is imported.
    (tmp_path / "numpy.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    arguments = ["compare", "--help"] if program[0].endswith("gapless") else ["--help"]
    assert end(start([*program, *arguments], tmp_path)) == (130, "", "interrupted\n")


def test_ctrl_c_in_an_import_needs_nobody_to_tell(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    command = f"exec {sys.executable} -m planners.compare 2>&-"
    assert end(start(["sh", "-c", command], tmp_path)) == (130, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_in_an_import_are_one_line(number: signal.Signals, tmp_path: Path) -> None:
    # After all of ours is found, and before the command line runs.
    (tmp_path / "typer.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    answer = end(start([sys.executable, "-m", "planners.compare", "--help"], tmp_path))
    assert answer == (STATUS[number], "", LINE[number])


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "import os, signal\n"
        "for number in (signal.SIGINT, signal.SIGHUP):\n"
        "    os.kill(os.getpid(), number)\n"
        "raise SystemExit(7)\n"
    )
    command = f"trap '' INT HUP; exec {sys.executable} -m planners.compare"
    assert end(start(["sh", "-c", command], tmp_path)) == (7, "", "")


def test_an_import_of_ours_changes_no_handler(tmp_path: Path) -> None:
    script = tmp_path / "theirs.py"
    script.write_text(
        "import signal, sys\n"
        "import evaluation, gpu_runtime, instances, planners.compare.__main__\n"
        "from planners import Problem\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)\n"
        "print(sys.excepthook is sys.__excepthook__)\n"
    )
    assert end(start([sys.executable, script], ROOT)) == (0, "True\nTrue\nTrue\n", "")


@pytest.mark.parametrize("program", [programs()[4], programs()[-2]], ids=["module", "script"])
def test_an_import_that_fails_is_one_line(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "raise ModuleNotFoundError('no module named typer', name='typer')\n"
    )
    arguments = ["convert"] if program[0].endswith("gapless") else []
    code, out, err = end(start([*program, *arguments], tmp_path))
    assert (code, out) == (2, "")
    assert err == "error: no module named typer; install with: pip install gapless\n"


def test_a_missing_extra_is_named_wherever_it_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    app = CommandLine()

    @app.command()
    def draw() -> None:
        raise ModuleNotFoundError("No module named 'matplotlib.figure'", name="matplotlib.figure")

    with pytest.raises(SystemExit) as ended:
        app([])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "error: No module named 'matplotlib.figure'; install with: pip install 'gapless[plot]'\n"
    )


@pytest.mark.parametrize("name", APPS)
@pytest.mark.parametrize("arguments", [["--no-such-option"], ["\x00no-such-word", "-o"]])
def test_arguments_that_make_no_sense_are_one_line(name: str, arguments: list[str]) -> None:
    answer = CliRunner().invoke(APPS[name], arguments)
    assert answer.exit_code == 2
    assert re.fullmatch(r"error: .*\n", answer.stderr), answer.stderr
    assert answer.stdout == ""


MISTAKES: Mapping[str, tuple[BaseException, int, str]] = {
    "ours": (GaplessError("what is\nwrong"), 2, "error: what is wrong\n"),
    "of the system": (PermissionError(13, "No", "f"), 2, "error: f: No\n"),
    "memory": (MemoryError(), 2, "error: not enough memory\n"),
    "a reader that left": (BrokenPipeError(), 141, ""),
    "an interrupt": (KeyboardInterrupt(), 130, "interrupted\n"),
    "its own status": (typer.Exit(7), 7, ""),
    "done": (typer.Exit(), 0, ""),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_end_has_its_line_and_its_status(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standard_output, "abandon", lambda: None)
    error, status, line = MISTAKES[name]
    app = CommandLine()

    @app.command()
    def fail() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        app([])
    assert ended.value.code == status
    assert capsys.readouterr() == ("", line)


def test_a_fault_of_ours_has_its_traceback() -> None:
    app = CommandLine()

    @app.command()
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        app([])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_conversion_keeps_the_best_plan_there_is(
    number: signal.Signals, site: Path, toy: Path, tmp_path: Path
) -> None:
    path = tmp_path / "toy.csv"
    command = [sys.executable, "-m", "instances.convert", toy, "-o", path, "--planner", "kept"]
    process = start(command, site)
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    process.send_signal(number)
    said = f"{path}: minimalloc-csv, 2 tensors, planned in 6 bytes\n"
    assert end(process) == (STATUS[number], said, LINE[number])
    assert path.read_text().splitlines()[0] == "id,lower,upper,size,offset"


@pytest.mark.parametrize(
    "arguments",
    [
        ["instances.convert", "toy.json", "-o", "old.csv", "--planner", "lost"],
        ["gpu_runtime.replay", "verify", "toy.json", "--planner", "lost"],
        ["gpu_runtime.replay", "verify", "toy.json", "--planner", "kept"],
        ["instances", "update", "toy", "--catalogue", "catalogue.toml", "--planners", "lost"],
    ],
    ids=lambda arguments: "-".join([arguments[0], arguments[-1]]),
)
def test_without_a_plan_nothing_is_replaced(
    arguments: list[str], site: Path, toy: Path, tmp_path: Path
) -> None:
    (tmp_path / "old.csv").write_text("what was there")
    files = {path.name: str(path) for path in (toy, tmp_path / "old.csv")}
    files["catalogue.toml"] = str(tmp_path / "catalogue.toml")
    process = start([sys.executable, "-m", *(files.get(word, word) for word in arguments)], site)
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "", "interrupted\n")
    assert (tmp_path / "old.csv").read_text() == "what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.csv", "site", "toy.json"]


# ---- The wrong moment ----------------------------------------------------------------------------

PRESS = "import enum, os, signal, sys\ndef press(): os.kill(os.getpid(), signal.SIGTERM)\n"

# While compiled code is imported: nanobind ends the process where Python that it calls raises.
IN_COMPILED_CODE = """
def pressed(*_):
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_qualname != "ExtensionFileLoader.exec_module":
        frame = frame.f_back
    if frame is not None and "gpu_runtime" in sys.modules:
        del enum.Enum.__init__
        press()
enum.Enum.__init__ = pressed
"""
# Python makes a RuntimeError of it.
IN_SET_NAME = """
class Pressed:
    def __set_name__(self, owner, name): press()
class Owner: name = Pressed()
"""
# Handlers of Python's are gone by then.
AFTER_THE_END = """
class Late:
    def __del__(self, press=os.kill, process=os.getpid(), number=signal.SIGTERM):
        press(process, number)
sys.modules["late"] = Late()
"""


@pytest.mark.parametrize(
    ("module", "code", "expected"),
    [
        ("sitecustomize", IN_COMPILED_CODE, (143, "interrupted by SIGTERM\n")),
        ("waiting", IN_SET_NAME, (143, "interrupted by SIGTERM\n")),
        ("waiting", AFTER_THE_END, (0, "")),
    ],
    ids=["compiled", "set name", "after the end"],
)
def test_a_signal_at_the_wrong_moment_ends_as_any_other(
    module: str, code: str, expected: tuple[int, str], site: Path, toy: Path
) -> None:
    (site / f"{module}.py").write_text(PRESS + code)
    command = [sys.executable, "-m", "planners.compare", toy, "--planners", "naive"]
    status, _, err = end(start(command, site))
    assert (status, err) == expected


def test_an_error_that_an_interrupt_was_made_into_is_that_interrupt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = CommandLine()

    @app.command()
    def fail() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise SystemError("returned a result with an exception set") from None

    with pytest.raises(SystemExit) as ended:
        app([])
    assert ended.value.code == 143
    assert capsys.readouterr() == ("", "interrupted by SIGTERM\n")


def test_a_signal_within_a_destructor_is_remembered() -> None:
    class Interrupted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    class Failing:
        def __del__(self) -> None:
            raise ValueError("of its own")

    heard: list[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda each: heard.append(str(each.exc_value))
    try:
        with Interrupt() as interrupt:
            Failing()
            Interrupted()
            assert interrupt.came
            assert Interrupt.has_come()
    finally:
        sys.unraisablehook = before
    assert heard == ["of its own"]


def test_a_process_that_takes_no_hint_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(interrupt, "leave_at_once", left.append)
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt() as outer, Interrupt() as inner:
        assert inner is outer
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            assert left == []
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        assert outer.came
    assert left == [143]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_plan_is_written_and_read_zipped(toy: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json.gz"
    answer = CliRunner().invoke(
        compare, [str(toy), "--planners", "naive", "--save-plan", str(path)]
    )
    assert answer.exit_code == 0, answer.output
    answer = CliRunner().invoke(verify, [str(toy), "--plan", str(path), "--trials", "1"])
    assert answer.exit_code == 0, answer.output
    assert read_problem(toy).name == "toy"
