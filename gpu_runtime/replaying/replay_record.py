"""A replay for programs."""

from __future__ import annotations

import json
from dataclasses import asdict

from gpu_runtime.replaying.recorded_check import RecordedCheck
from planners.compare.records import environment
from planners.online.online_records import online_record
from planners.online.online_run import OnlineRun

SCHEMA = "gapless-replay"
SCHEMA_VERSION = 1


def replay_json(run: OnlineRun, file: str, checked: RecordedCheck | None) -> str:
    """Return what ``--json`` prints; `check` is null where none was asked for."""
    record = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "environment": environment(),
        "instance": run.requests.name,
        "file": file,
        "check": None if checked is None else asdict(checked),
        **online_record(run),
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"
