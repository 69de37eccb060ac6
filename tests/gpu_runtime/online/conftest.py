"""Tests that import PyTorch are collected where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["test_module_hooks.py"]
