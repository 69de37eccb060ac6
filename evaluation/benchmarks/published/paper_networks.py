"""The paper's ten networks, and its two larger ones: what it measured, for tables beside ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperNetwork:
    """A row of the paper's Table 1 and of its Tables 2 and 3, transposed."""

    name: str
    # The instance that stands for it here, as the catalogue calls it.
    instance: str
    tensors: int
    # Sum of all tensors, and the lifetime bound, as printed.
    naive_gb: float
    bound_gb: float
    # Lowest peak of its eight Single Object and of its two Many Objects planners.
    single_gb: float
    many_gb: float
    # Shortest time of the same planners.
    single_ms: int
    many_ms: int
    # Time of its safety algorithms 1opt and 2.
    safety_1opt_ms: int
    safety_2_ms: int
    # Contiguous chains where the paper counts them; it says up to about 20 for the others.
    chains: int | None = None


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
        "BERT-base", "bert", 4_400, 42.7816, 13.5119, 13.5119, 13.5121,
        571, 315, 957, 620,
    ),
    PaperNetwork(
        "BERT-large", "bert-large", 8_200, 83.3553, 24.9171, 24.9171, 24.9172,
        3_482, 1_953, 4_043, 2_289,
    ),
    PaperNetwork(
        "BERT-nezha", "bert-nezha", 9_400, 61.5739, 14.686, 14.7778, 14.7854,
        3_559, 2_060, 5_275, 2_959,
    ),
    PaperNetwork(
        "FaceRecognition", "face-recognition", 8_500, 77.6916, 15.7456, 15.7456, 15.7797,
        2_409, 862, 1_376, 845,
    ),
    PaperNetwork(
        "PanGu-alpha-2.6B", "pangu-2.6b", 20_000, 1349.14, 18.4541, 18.4541, 18.4541,
        13_451, 12_390, 13_845, 10_359, 678,
    ),
    PaperNetwork(
        "ResNet-50", "resnet-50", 1_500, 3.3598, 1.4056, 1.4133, 1.4132,
        41, 28, 32, 20,
    ),
    PaperNetwork(
        "Tiny-BERT", "tiny-bert", 1_800, 5.17475, 0.68938, 0.7018, 0.69698,
        97, 43, 143, 96,
    ),
    PaperNetwork(
        "FaceDetection", "yolov3", 4_200, 13.5162, 3.19949, 3.19949, 3.20942,
        763, 406, 693, 546,
    ),
    PaperNetwork(
        "Transformer", "transformer", 3_500, 34.2267, 7.54506, 7.54506, 7.54506,
        300, 136, 720, 568,
    ),
    PaperNetwork(
        "MobileNetv2", "mobilenet-v2-quant", 3_900, 64.1832, 17.6423, 17.6506, 17.6662,
        544, 154, 57, 42,
    ),
)  # fmt: skip

# The same, table 4.
LARGE_NETWORKS = (
    LargeNetwork("PanGu-alpha 8B", "pangu-8b", 27.36, 14.76, 14.68),
    LargeNetwork("PanGu-alpha 13B", "pangu-13b", 31.72, 25.08, 24.95),
)
