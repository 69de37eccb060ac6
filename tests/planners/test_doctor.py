"""``gapless doctor`` lists versions, and the command that installs a missing package."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from gpu_runtime import findings
from planners.doctor import main, packages_of_extras
from tests.installed_package import install

REQUIREMENTS = [
    "numpy>=1.26",
    'torch>=2.6; extra == "torch"',
    "peft (<1) ; (python_version >= '3.11') and extra == 'programs'",
    'gapless[torch]; extra == "programs"',
    'onnx[reference]>=1.17; extra == "onnx"',
    'gapless[onnx,programs]; extra == "all"',
]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_an_extra_has_its_packages_and_those_of_extras_within() -> None:
    assert packages_of_extras(REQUIREMENTS) == {
        "torch": ["torch"],
        "programs": ["peft", "torch"],
        "onnx": ["onnx"],
        "all": ["onnx", "peft", "torch"],
    }


def test_it_tells_versions_and_the_command_for_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from planners import doctor

    has = doctor.version_of
    monkeypatch.setattr(doctor, "version_of", lambda name: None if name == "numpy" else has(name))
    monkeypatch.setattr(doctor, "requires", lambda _: [*REQUIREMENTS, 'nowhere; extra == "plot"'])
    lines = [line.split(maxsplit=1) for line in said(capsys).splitlines()]
    told = {line[0]: line[1] for line in lines if len(line) == 2}
    assert told["scipy"] == version("scipy")
    assert told["numpy"] == "missing: pip install gapless"
    assert told["plot"] == "lacks nowhere: pip install 'gapless[plot]'"
    assert told["test"] == "installed"
    assert {"compiler", "PyTorch", "GPU"} <= told.keys()


def test_a_missing_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    told = dict(findings.findings())["compiler"]
    assert told == "no-such-compiler is not found; install g++, or name another one by CXX"


@pytest.mark.parametrize("end", ["raise OSError('no such card')", "exit('no such card')"])
def test_findings_of_a_third_party_that_fail_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str
) -> None:
    code = f"def found():\n    yield 'part', 'fi\\x1b[2Jne'\n    {end}\n"
    install(tmp_path, "far_away", code, "gapless.findings", "far-away = far_away:found")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    told = said(capsys)
    assert "far-away\n  part    fine\n  failed  " in told
    assert "no such card" in told
