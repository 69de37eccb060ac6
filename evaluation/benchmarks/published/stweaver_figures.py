"""What is published of STWeaver on mixtures of experts, to stand beside what comes out here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedComposition:
    """A column of Table 3 of Huang et al. 2026: Qwen1.5-MoE-A2.7B, in GB."""

    setting: str
    total: float
    static: float
    fallback_without_reuse: float
    fallback: float


# N: without recomputation, R: with it.
TABLE_3 = (
    PublishedComposition("N", 59.51, 44.68, 15.19, 15.19),
    PublishedComposition("R", 32.36, 31.39, 1.61, 1.12),
)
# Section 8.4: shares of the fragmentation that go away.
STATIC_REDUCTION = 0.702
STATIC_SHARE = 0.91
ADDED_BY_REUSE = 0.229
# Section 8.2: mean fragmentation of mixtures of experts.
FRAGMENTATION = {
    "stweaver": 0.043, "pytorch-caching": 0.177, "gmlake": 0.203, "pytorch-expandable": 0.069,
}  # fmt: skip
