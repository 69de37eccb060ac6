"""The claims of a study that comes with the package."""

from __future__ import annotations

import tomllib

from evaluation.claims.claim import Claim
from evaluation.claims.claim_file import claims_of
from tests.repository import ROOT

STUDIES = ROOT / "evaluation" / "studies"


def shipped_claims(study: str) -> tuple[Claim, ...]:
    return claims_of(tomllib.loads((STUDIES / f"{study}.toml").read_text())["page"])
