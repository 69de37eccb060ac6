"""Entries for tests: small, complete, and changed field by field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from instances.catalogue.catalogue_entry import Best, CatalogueEntry, Facts

FACTS = Facts(
    digest="sha256:" + "0" * 64,
    tensors=4,
    streams=2,
    chains=1,
    naive=4096,
    bounds={"lifetime": 2000, "antichain": 2048, "block": 1024},
)
BEST = Best(2048, "optimal", 2048, "antichain", "greedy-size-first", "0.1.0", "0123456789ab")


def entry(name: str = "toy", **changes: Any) -> CatalogueEntry:
    """Return an entry with some fields changed."""
    whole = CatalogueEntry(
        name=name,
        kind="extracted graph",
        file=f"{name}.json.gz",
        committed=True,
        origin="a model",
        command="python -m instances.extract toy --batch 1",
        made_with="torch 2.13.0",
        tags=("streams",),
        notes="",
        source="",
        licence="",
        facts=FACTS,
        best=BEST,
    )
    return replace(whole, **changes)
