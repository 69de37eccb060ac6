"""Run a module as a command does, and write down what its process took, from its start to its end.

``python -m evaluation.measuring.measured_command REPORT.json MODULE ARGUMENTS``. The process says
it of itself: what the system tells of an ended child has the memory of its parent in it.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from pathlib import Path

from evaluation.measuring.resident_memory import resident_peak


def main() -> None:
    """Run the module, and end as it does."""
    report, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__")
    finally:
        took = {"processor_seconds": time.process_time(), "peak_resident_bytes": resident_peak()}
        Path(report).write_text(json.dumps(took))


if __name__ == "__main__":
    main()
