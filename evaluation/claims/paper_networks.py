"""The paper's ten networks, and its two larger ones: what it measured, for tables beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

# The paper's planners, as they are called here: eight of Single Object, two of Many Objects.
SINGLE_OBJECT = tuple(
    f"greedy-{order}-{fit}"
    for order in ("breadth", "size", "source", "unsafe")
    for fit in ("best", "first")
)
MANY_OBJECTS = ("many-objects-size-best", "many-objects-size-first")
PAPER_PLANNERS = (*SINGLE_OBJECT, *MANY_OBJECTS)


@dataclass(frozen=True)
class PaperNetwork:
    """A row of the paper's Table 1 and a column of its Tables 2 and 3."""

    name: str
    # The instance that stands for it here, as the catalogue calls it.
    instance: str
    tensors: int
    # Sum of all tensors, and the lifetime bound, as printed.
    naive_gb: float
    bound_gb: float
    # Peak in GB and time in milliseconds of each of :data:`PAPER_PLANNERS`, in that order.
    plans: tuple[tuple[float, int], ...]
    # Time of its safety algorithms 1opt and 2.
    safety_1opt_ms: int
    safety_2_ms: int
    # Contiguous chains where the paper counts them; it says up to about 20 for the others.
    chains: int | None = None

    @cached_property
    def by_planner(self) -> Mapping[str, tuple[float, int]]:
        """Peak and time by planner."""
        return dict(zip(PAPER_PLANNERS, self.plans, strict=True))


@dataclass(frozen=True)
class LargeNetwork:
    """A row of the paper's Table 4."""

    name: str
    instance: str
    # What the framework took before, the paper's best plan, and the lifetime bound, as printed.
    baseline_gb: float
    best_gb: float
    bound_gb: float


# Lamprou et al. 2023, section 5 and tables 1 to 3.
PAPER_NETWORKS = (
    PaperNetwork(
        "BERT-base", "bert", 4_400, 42.7816, 13.5119,
        (
            (13.5119, 597), (13.5119, 603), (13.5121, 637), (13.5121, 616),
            (13.5148, 612), (13.5148, 571), (13.6894, 584), (13.6894, 581),
            (13.5121, 316), (13.5121, 315),
        ),
        957, 620,
    ),
    PaperNetwork(
        "BERT-large", "bert-large", 8_200, 83.3553, 24.9171,
        (
            (24.9171, 3_587), (24.9171, 3_555), (25.013, 3_716), (25.004, 3_790),
            (24.932, 3_565), (24.932, 3_482), (25.1032, 3_499), (25.1016, 3_571),
            (24.9172, 1_953), (24.9172, 2_226),
        ),
        4_043, 2_289,
    ),
    PaperNetwork(
        "BERT-nezha", "bert-nezha", 9_400, 61.5739, 14.686,
        (
            (14.8293, 4_309), (14.8293, 4_273), (14.8232, 4_520), (14.7778, 4_443),
            (14.9117, 4_013), (14.9117, 4_132), (14.8282, 3_559), (14.8426, 4_037),
            (14.7854, 2_060), (14.7854, 2_310),
        ),
        5_275, 2_959,
    ),
    PaperNetwork(
        "FaceRecognition", "face-recognition", 8_500, 77.6916, 15.7456,
        (
            (16.121, 3_029), (16.121, 2_841), (15.81, 2_409), (15.7867, 2_936),
            (15.8746, 2_927), (16.0055, 2_975), (15.7456, 3_220), (15.7815, 3_063),
            (15.7797, 862), (15.7797, 875),
        ),
        1_376, 845,
    ),
    PaperNetwork(
        "PanGu-alpha-2.6B", "pangu-2.6b", 20_000, 1349.14, 18.4541,
        (
            (18.4541, 16_318), (18.4541, 16_320), (18.4541, 16_017), (18.4541, 13_451),
            (19.5846, 14_928), (20.2817, 15_564), (21.4649, 15_298), (21.6111, 15_931),
            (18.4541, 12_781), (18.4541, 12_390),
        ),
        13_845, 10_359, 678,
    ),
    PaperNetwork(
        "ResNet-50", "resnet-50", 1_500, 3.3598, 1.4056,
        (
            (1.4909, 41), (1.4909, 73), (1.4211, 49), (1.4133, 49),
            (1.4917, 43), (1.4917, 42), (1.4207, 45), (1.4286, 46),
            (1.4251, 29), (1.4132, 28),
        ),
        32, 20,
    ),
    PaperNetwork(
        "Tiny-BERT", "tiny-bert", 1_800, 5.17475, 0.68938,
        (
            (0.71281, 105), (0.75969, 99), (0.70469, 100), (0.70708, 97),
            (0.74554, 107), (0.74581, 106), (0.704, 97), (0.7018, 100),
            (0.69726, 43), (0.69698, 44),
        ),
        143, 96,
    ),
    PaperNetwork(
        "FaceDetection", "yolov3", 4_200, 13.5162, 3.19949,
        (
            (3.2174, 763), (3.19949, 773), (3.20868, 841), (3.20813, 869),
            (3.20907, 791), (3.21292, 773), (3.19961, 805), (3.19961, 851),
            (3.20942, 406), (3.2107, 441),
        ),
        693, 546,
    ),
    PaperNetwork(
        "Transformer", "transformer", 3_500, 34.2267, 7.54506,
        (
            (7.54506, 302), (7.54506, 362), (7.54506, 323), (7.54506, 322),
            (7.78331, 301), (7.78526, 300), (7.57963, 314), (7.57963, 311),
            (7.54506, 169), (7.54506, 136),
        ),
        720, 568,
    ),
    PaperNetwork(
        "MobileNetv2", "mobilenet-v2-quant", 3_900, 64.1832, 17.6423,
        (
            (17.6506, 544), (17.6506, 551), (17.6682, 592), (17.6637, 625),
            (17.6881, 595), (17.6887, 594), (17.6613, 692), (17.6613, 695),
            (17.6662, 162), (17.6662, 154),
        ),
        57, 42,
    ),
)  # fmt: skip

# The same, table 4.
LARGE_NETWORKS = (
    LargeNetwork("PanGu-alpha 8B", "pangu-8b", 27.36, 14.76, 14.68),
    LargeNetwork("PanGu-alpha 13B", "pangu-13b", 31.72, 25.08, 24.95),
)
