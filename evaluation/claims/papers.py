"""Which evidence the claims of each paper's study are held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.claims.evidence import Evidence
from evaluation.claims.gmlake import GMLAKE_EVIDENCE
from evaluation.claims.offsets import OFFSETS
from evaluation.claims.safety import SAFETY
from evaluation.claims.stweaver import STWEAVER_EVIDENCE
from evaluation.claims.vpmm import VPMM_EVIDENCE

EVIDENCE: Mapping[str, tuple[Evidence[Any], ...]] = {
    "paper-offsets": OFFSETS,
    "paper-safety": SAFETY,
    "paper-stweaver": STWEAVER_EVIDENCE,
    "paper-gmlake": GMLAKE_EVIDENCE,
    "paper-vpmm": VPMM_EVIDENCE,
}
