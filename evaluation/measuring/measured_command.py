"""Run a module as a command does, and report the time and the memory of its whole process.

``python -m evaluation.measuring.measured_command REPORT.json MODULE ARGUMENTS``. The process
measures itself, because the system's figures for an ended child include memory of its parent.
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
