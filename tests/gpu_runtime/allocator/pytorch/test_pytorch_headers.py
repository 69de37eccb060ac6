"""A new member of PyTorch's allocator is named, although the decorator compiles without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu_runtime.allocator.pytorch.pytorch_headers import (
    members_not_passed_on,
    overridden_members,
)

CUDA = """
class C10_CUDA_API FreeMemoryCallback { public: virtual bool Execute() = 0; };
// virtual void inAComment();
class CUDAAllocator : public DeviceAllocator {
 public:
  ~CUDAAllocator() override = default;
  virtual void* raw_alloc(size_t nbytes) = 0;
  virtual SnapshotInfo snapshot(MempoolId_t pool = {0, 0}) = 0;
  virtual bool checkPool(int device) { if (device) { return true; } return false; }%s
};
class Another { virtual void another(); };
"""
DEVICE = (
    "struct C10_API DeviceAllocator : public c10::Allocator { virtual bool initialized() = 0; };"
)


@pytest.mark.parametrize(
    ("added", "left"),
    [
        ("", ["checkPool"]),
        (" virtual std::string later(const std::string& text) {}", ["checkPool", "later"]),
    ],
)
def test_members_that_are_not_passed_on_are_named(
    tmp_path: Path, added: str, left: list[str]
) -> None:
    for folder, name, text in (
        ("cuda", "CUDACachingAllocator.h", CUDA % added),
        ("core", "CachingDeviceAllocator.h", DEVICE),
    ):
        path = tmp_path / "c10" / folder / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert members_not_passed_on(tmp_path) == left


def test_the_decorator_overrides_members_of_every_version() -> None:
    assert {"raw_alloc", "emptyCache", "snapshot", "markCaptureBegin"} <= overridden_members()
