"""A package that lies in a folder as an installer would have put it there."""

from __future__ import annotations

from pathlib import Path


def install(site: Path, name: str, code: str, group: str, *entries: str) -> None:
    """Write a module, and the metadata beside it by which its entry points are found."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{name}.py").write_text(code)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *entries, ""]))
