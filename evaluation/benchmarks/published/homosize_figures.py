"""Figures of others that the page on `homosize` sets beside its own, with where each comes from."""

from __future__ import annotations

from dataclasses import dataclass

# Table 2 of the paper: configuration (N without, R with recomputation), requests, seconds to plan.
PUBLISHED_PLAN_SECONDS = (
    ("GPT-2-N", 12_785, 24.36),
    ("GPT-2-R", 16_569, 21.93),
    ("Llama2-7B-N", 66_529, 104.96),
    ("Llama2-7B-R", 86_721, 136.34),
    ("Qwen1.5-MoE-N", 196_759, 374.18),
    ("Qwen1.5-MoE-R", 281_669, 145.4),
)
LARGEST_PUBLISHED = 281_669

# Section 8.2, where the bars of Figure 7 have no numbers: setting, memory efficiency in percent of
# the paper's allocator, of PyTorch's, of PyTorch's with expandable segments. Means are one less the
# mean fragmentation.
PUBLISHED_EFFICIENCY = (
    ("dense models, 8 A800", "above 95, up to 100", "57.2 to 93.8", "62.4 to 94.9"),
    ("mixture of experts, 8 A800", "93.8 to 97.8, mean 95.7", "mean 82.3", "mean 93.1"),
    ("recomputation, H200", "99.1", "-", "-"),
    ("virtual pipeline, H200", "above 99", "-", "-"),
)


@dataclass(frozen=True)
class Reported:
    """What PyTorch itself reported for a recorded run: peaks over the run, GiB."""

    # Three different things in PyTorch's memory statistics.
    requested: float
    allocated: float
    reserved: float


REPORTED = {
    "bert-base": Reported(12.242, 12.275, 14.322),
    "bert-base.es": Reported(12.242, 12.242, 13.297),
    "gpt2-medium-R": Reported(27.071, 27.072, 28.643),
    "gpt2-medium-R.es": Reported(27.071, 27.071, 31.162),
    "gpt2-pp4-vpp2-R": Reported(10.274, 10.274, 10.537),
    "qwen-moe-R": Reported(19.669, 19.721, 22.648),
    "mobilenet_v2": Reported(4.842, 4.858, 5.338),
    "gpt2-offload": Reported(14.848, 3.588, 17.164),
}


@dataclass(frozen=True)
class PublicCode:
    """What the paper's public code did with the last iteration of a trace."""

    requests: int
    # Processor seconds of its two planners.
    seconds: tuple[float, float]
    # Of the planned pool, percent; of its two planners, None where it was not noted.
    fragmentation: tuple[float | None, float | None]


# Measured once, on the same kind of machine; not part of this repository.
PUBLIC_CODE = {
    "bert-base": PublicCode(1_388, (5.8, 5.5), (0.0, 0.0)),
    "gpt2-medium-R": PublicCode(12_872, (15.3, 7.1), (0.0, 0.0)),
    "gpt2-pp4-vpp2-R": PublicCode(5_736, (5.9, 6.5), (0.083, 6.67)),
    "qwen-moe-R": PublicCode(65_646, (241.0, 69.0), (None, None)),
}
