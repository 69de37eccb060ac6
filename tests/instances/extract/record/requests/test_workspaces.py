"""Workspaces by rule, against the bytes that PyTorch 2.11 asked for on an NVIDIA H200."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import pytest

from instances.extract.record.requests.workspaces import (
    FREE,
    HOPPER,
    NEXT_RESULT,
    RESULTS,
    LibraryWorkspaces,
    result_bytes,
    staging_bytes,
    workspace_script,
)


@dataclass(frozen=True)
class Storage:
    """Memory behind a tensor."""

    size: int

    def nbytes(self) -> int:
        return self.size


@dataclass(frozen=True)
class Shape:
    """As much of a tensor as a rule looks at."""

    shape: tuple[int, ...]
    dtype: str = "int64"
    contiguous: bool = True
    bytes_each: int = 8

    def untyped_storage(self) -> Storage:
        return Storage(self.nbytes)

    def element_size(self) -> int:
        return self.bytes_each

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def is_contiguous(self) -> bool:
        return self.contiguous

    @property
    def nbytes(self) -> int:
        return self.bytes_each * self.numel()


def script(name: str, *arguments: Any, results: tuple[Shape, ...] = ()) -> list[int]:
    return list(workspace_script(name, arguments, results))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "rows", "recorded"),
    [
        (768, 16384, (100_663_296, 24)),
        (3072, 16384, (138_412_032, 96)),
        (30522, 16384, (62_509_056, 1908)),  # pairs of columns, for 30522 is no multiple of 4
        (1024, 32768, (138_412_032, 32)),
        (3072, 32768, (138_412_032, 96)),
        (4096, 32768, (138_412_032, 128)),
    ],
)
def test_the_gradient_of_a_bias_takes_what_was_recorded(
    columns: int, rows: int, recorded: tuple[int, int]
) -> None:
    assert staging_bytes(columns, rows, HOPPER) == recorded
    summed = Shape((rows, columns))
    assert script("sum.dim_IntList", summed, [0], True) == [RESULTS, *recorded]


SUM = "sum.dim_IntList"
EMBEDDED = "embedding_dense_backward.default"
ATTENDED = "_scaled_dot_product_cudnn_attention_backward.default"
COLUMN = 8 * 16384
SCATTERED = Shape((1, 512), contiguous=False)
QUERY = Shape((32, 12, 512, 64))
# Three of twelve heads of keys and values.
SHARED = Shape((32, 3, 512, 64))
SUMS = Shape((32, 1024))
OWN, LOSS = Shape((64, 12, 128, 128), "float32", bytes_each=4), Shape((), "float32", bytes_each=4)
# An operator, its arguments, its results; its script.
SCRIPTS: list[tuple[str, tuple[Any, ...], tuple[Shape, ...], list[int]]] = [
    ("gelu.default", (Shape((2, 3)),), (), [RESULTS]),
    # Of 32 values a column one block sums alone.
    (SUM, (Shape((32, 512, 768)), [0]), (), [RESULTS]),
    (SUM, (Shape((16384, 768)), [1]), (), [RESULTS]),
    (SUM, (Shape((16384, 768), contiguous=False), [0]), (), [RESULTS]),
    (SUM, (Shape((16384, 768)), [0, 1]), (), [RESULTS]),
    # The gradient of an embedding sorts its indices, unless they are few.
    (EMBEDDED, (Shape((32, 512, 768)), Shape((32, 512)), 30522, 0, False), (), [
        COLUMN, COLUMN, COLUMN, 283_135, FREE, FREE, RESULTS,
        COLUMN, 8, COLUMN, 1_279, FREE, FREE,
        COLUMN, COLUMN, 1_535, FREE, 8, 144_176, 55_363_584,
    ]),
    (EMBEDDED, (Shape((1, 512, 768)), SCATTERED, 512), (), [8 * 512, RESULTS]),
    ("embedding.default", (Shape((512, 768)), SCATTERED), (), [8 * 512, RESULTS]),
    ("embedding.default", (Shape((512, 768)), Shape((1, 512))), (), [RESULTS]),
    # Attention by cuDNN sums gradients in float32.
    (ATTENDED, (QUERY,) * 4, (), [RESULTS, 51_118_336]),
    (ATTENDED, (QUERY, QUERY, SHARED, SHARED), (), [RESULTS, 51_118_336 + 2 * QUERY.nbytes]),
    ("_scaled_dot_product_cudnn_attention.default", (QUERY,), (), [RESULTS, 256]),
    # A prefix sum converts what has another dtype.
    ("cumsum.default", (Shape((32, 1024), "bool"), 1), (SUMS,), [RESULTS, 262_144]),
    ("cumsum.default", (SUMS, 1), (SUMS,), [RESULTS]),
    # The gradient of aligned labels sums from the end.
    ("_ctc_loss_backward.Tensor", (*[Shape((2,))] * 6, Shape((2, 49, 101))), (),
     [2 * 49 * 101 * 8, RESULTS]),
    # A mean squared error keeps the differences.
    ("mse_loss.default", (OWN, OWN), (LOSS,), [RESULTS, 50_331_648]),
    ("mse_loss.default", (OWN, OWN), (OWN,), [RESULTS]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "results", "expected"), SCRIPTS)
def test_a_kernel_has_this_script(
    name: str, arguments: tuple[Any, ...], results: tuple[Shape, ...], expected: list[int]
) -> None:
    assert script(name, *arguments, results=results) == expected


def test_cublas_takes_its_workspace_once_a_thread_and_stream() -> None:
    libraries = LibraryWorkspaces()
    asked = [
        libraries.first_used_by(name, stream, on_engine_thread=engine)
        for name, stream, engine in (
            ("gelu.default", 0, False),
            ("addmm.default", 0, False),
            ("addmm.default", 0, False),
            ("mm.default", 0, True),
            ("addmm.default", 0, True),
            ("mm.default", 1, False),
        )
    ]
    assert asked == [[], [32 << 20, 1 << 20], [], [32 << 20], [1 << 20], [32 << 20]]


def image(channels: int, side: int) -> Shape:
    return Shape((128, channels, side, side), "bfloat16", bytes_each=2)


# Image, channels and side of the result, side of the kernel, stride; what was recorded beside the
# results of a ResNet-50's convolution, of its gradient by the image and of that by the weights.
CONVOLUTIONS = [
    (image(64, 56), 64, 56, 3, 1, 102_834_323, 102_834_323, 104_751_783),
    (image(128, 56), 128, 28, 3, 2, 128_745_619, 128_745_619, 136_413_863),
    (image(128, 28), 128, 28, 3, 1, 51_675_283, 51_675_283, 59_343_527),
    (image(256, 56), 512, 28, 1, 2, 308_281_491, 308_281_491, 311_951_983),
    (image(512, 28), 128, 28, 1, 1, 0, 0, 33_554_432),
    (image(256, 56), 64, 56, 1, 1, 0, 0, 8_388_608),
]


@pytest.mark.parametrize(
    ("given", "channels", "side", "kernel", "stride", "forward", "by_image", "by_weight"),
    CONVOLUTIONS,
)
def test_a_convolution_turns_its_images_round_beside_them(
    given: Shape,
    channels: int,
    side: int,
    kernel: int,
    stride: int,
    forward: int,
    by_image: int,
    by_weight: int,
) -> None:
    made = image(channels, side)
    weight = Shape((channels, given.shape[1], kernel, kernel), "bfloat16", bytes_each=2)
    how = ([stride, stride], [0, 0], [1, 1], False, [0, 0], 1)
    found = script("convolution.default", given, weight, None, *how, results=(made,))
    assert found == ([RESULTS, pytest.approx(forward, abs=1024)] if forward else [RESULTS])
    wanted = [True, True, False]
    backward = script(
        "convolution_backward.default", made, given, weight, None, *how, wanted,
        results=(given, weight),
    )  # fmt: skip
    of_image = [pytest.approx(by_image, abs=1024), FREE] if by_image else []
    near = pytest.approx(by_weight, rel=0.015)
    assert backward == [NEXT_RESULT, *of_image, NEXT_RESULT, near, FREE]


def test_an_image_of_three_channels_is_filled_up() -> None:
    given, made = image(3, 224), image(64, 112)
    weight = Shape((64, 3, 7, 7), "bfloat16", bytes_each=2)
    how = ([2, 2], [3, 3], [1, 1], False, [0, 0], 1)
    found = script("convolution.default", given, weight, None, *how, results=(made,))
    assert found == [RESULTS, 308_331_536 - 16]
    first = script(
        "convolution_backward.default", made, given, weight, None, *how, [False, True, False],
        results=(weight,),
    )  # fmt: skip
    assert first[0] == NEXT_RESULT
    assert len(first) == 3


@pytest.mark.parametrize("change", ["groups", "float32", "transposed", "channels last"])
def test_other_convolutions_have_no_known_workspace(change: str) -> None:
    each = 4 if change == "float32" else 2
    given = Shape((8, 64, 56, 56), "any", change != "channels last", bytes_each=each)
    weight = Shape((64, 64, 3, 3), "any", bytes_each=each)
    how = ([1, 1], [1, 1], [1, 1], change == "transposed", [0, 0], 64 if change == "groups" else 1)
    assert script("convolution.default", given, weight, None, *how, results=(given,)) == [RESULTS]


@pytest.mark.parametrize(
    ("name", "arguments", "result", "kept"),
    [
        ("mse_loss.default", (OWN, OWN), LOSS, 50_331_648),
        # Statistics in float32.
        ("native_batch_norm.default", (), Shape((64,), "bfloat16", bytes_each=2), 256),
    ],
)
def test_a_result_keeps_more_than_its_bytes(
    name: str, arguments: tuple[Shape, ...], result: Shape, kept: int
) -> None:
    assert result_bytes(name, arguments, result) == kept  # type: ignore[arg-type]
