"""The command ``python -m instances.extract trace``, beside the one that extracts graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances.extract.trace_command import trace
from instances.formats.recorded_trace import read_recorded_trace_file
from instances.traces.trace_problem import iteration_problem
from planners.errors import InstanceError
from planners.files.problem_file import problem_digest, read_gapless_json


def trace_tiny(output: Path, device: str = "fake") -> None:
    trace("bert-base", output, batch=2, seq=8, layers=1, steps=2, microbatches=3, device=device)


@pytest.mark.torch
def test_a_trace_and_the_problem_of_its_last_iteration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / name for name in ("tiny.npz", "tiny.json.gz")]
    for path in paths:
        trace_tiny(path)
        assert "in 2 iterations" in capsys.readouterr().out
    recorded = read_recorded_trace_file(paths[0])
    assert recorded.iteration_count == 2
    assert recorded.mark_microbatch.tolist() == [0, 0, 1, 1, 2, 2, 0] * 2
    problem = read_gapless_json(paths[1])
    assert problem.name == "tiny"
    assert problem.origin["microbatches"] == 3
    assert problem.origin["device"] == "fake"
    assert problem.phase_start is not None
    assert problem.phase_start.max() == 6
    # Each is of a run of its own: the same, event by event, whichever way it was written.
    assert problem_digest(iteration_problem(recorded)) == problem_digest(problem)


@pytest.mark.torch
def test_the_batch_of_a_configuration_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = '{"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 2, "vocab_size": 50}'
    (tmp_path / "config.json").write_text(fields)
    trace(str(tmp_path / "config.json"), tmp_path / "tiny.npz", seq=8, steps=1)
    said, _ = capsys.readouterr().out.splitlines()
    assert said == "transformers.GPT2LMHeadModel(config.json) gets input_ids 1 x 8, labels 1 x 8"


@pytest.mark.torch
def test_without_a_gpu_the_device_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InstanceError, match="device cuda: PyTorch finds no CUDA device"):
        trace_tiny(tmp_path / "tiny.npz", "cuda")
