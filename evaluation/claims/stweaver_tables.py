"""Figures that the paper on STWeaver prints, to stand beside what comes out here.

Source: Huang et al. 2026, sections 8.3 and 8.4 and tables 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass

# Table 2: configuration (N without, R with recomputation), requests, seconds to plan.
PUBLISHED_PLAN_SECONDS = (
    ("GPT-2-N", 12_785, 24.36),
    ("GPT-2-R", 16_569, 21.93),
    ("Llama2-7B-N", 66_529, 104.96),
    ("Llama2-7B-R", 86_721, 136.34),
    ("Qwen1.5-MoE-N", 196_759, 374.18),
    ("Qwen1.5-MoE-R", 281_669, 145.4),
)


@dataclass(frozen=True)
class PublishedComposition:
    """A column of Table 3: Qwen1.5-MoE-A2.7B, in GB."""

    setting: str
    total: float
    static: float
    fallback_without_reuse: float
    fallback: float


# R: recomputation, V: virtual pipeline, Z: ZeRO, O: offload; N: none of them.
TABLE_3 = (
    PublishedComposition("N", 59.51, 44.68, 15.19, 15.19),
    PublishedComposition("R", 32.36, 31.39, 1.61, 1.12),
    PublishedComposition("V", 62.78, 46.10, 17.80, 17.22),
    PublishedComposition("VR", 33.07, 31.83, 1.78, 1.70),
    PublishedComposition("ZR", 44.65, 44.62, 2.97, 1.65),
    PublishedComposition("ZOR", 44.70, 44.40, 1.95, 1.55),
)
# Section 8.4: shares of the fragmentation that go away.
STATIC_REDUCTION = 0.702
STATIC_SHARE = 0.91
ADDED_BY_REUSE = 0.229
