"""What a traced program is told about its GPU."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


def test_no_driver_is_asked_whether_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from instances.extract.record.gpu.gpu_answers import gpu_answered

    def without_driver() -> bool:
        raise RuntimeError("no CUDA-capable device is detected")

    # Adam asks, if PyTorch was built with CUDA.
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", without_driver)
    with gpu_answered(0, 1):
        assert not torch.cuda.is_current_stream_capturing()
