"""Which evidence the claims of each paper's study are held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.claims.evidence import Evidence
from evaluation.claims.offsets import OFFSETS
from evaluation.claims.safety import SAFETY

EVIDENCE: Mapping[str, tuple[Evidence[Any], ...]] = {
    "paper-offsets": OFFSETS,
    "paper-safety": SAFETY,
}
