"""``gapless`` where optional packages cannot be imported, as if they were not installed."""

from __future__ import annotations

import subprocess
import sys

from tests.repository import ROOT

# Pages with maps; `without_extras` keeps matplotlib, for the figures of Markdown.
REPORT = ("bokeh", "jinja2")
EXTRAS = (
    *REPORT, "matplotlib", "torch", "transformers", "accelerate", "peft", "psutil", "executorch",
    "onnx", "onnxscript", "tflite", "ai_edge_litert", "pytorch_lightning", "lightning",
    "omnimalloc", "ethosu", "onnxsim", "tinygrad", "distributed", "dask", "ortools", "pulp",
)  # fmt: skip

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def run_without(names: tuple[str, ...], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which packages are missing."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(names=names) + code],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip


def without_extras(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``gapless`` where the packages of maps are missing."""
    return run_without(REPORT, f"from planners.gapless import main\nmain({list(words)!r})")
