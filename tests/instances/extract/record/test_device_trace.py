"""A training loop on a GPU asks for what its trace on fake tensors says."""

from __future__ import annotations

import pytest

from instances.extract.record.recording import record
from instances.extract.record.trace_settings import TraceSettings
from instances.traces.trace_differences import iteration_figures


@pytest.mark.gpu
def test_a_gpu_asks_for_the_same() -> None:
    import torch

    assert torch.cuda.is_available(), "the tests marked gpu need a CUDA device"
    options = {"layers": 2, "batch": 8, "seq": 128}
    fake, real = (record("bert-base", TraceSettings(), where, **options)
                  for where in ("fake", "cuda"))  # fmt: skip
    ours, theirs = iteration_figures(fake), iteration_figures(real)
    assert ours.requests == pytest.approx(theirs.requests, rel=0.02)
    assert ours.requested_bytes == pytest.approx(theirs.requested_bytes, rel=0.02)
    assert ours.peak_bytes == pytest.approx(theirs.peak_bytes, rel=0.02)
