"""These tests are marked `torch`, and import PyTorch: without it none is collected."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = (
    []
    if find_spec("torch") and find_spec("transformers")
    else [
        *("kernels/test_call_effort.py", "models/*", "partition/test_*_graph.py", "record/g*/*"),
        *("record/test_device_history.py", "record/test_fake_trace.py", "record/test_own_*.py"),
    ]
)
