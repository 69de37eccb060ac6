"""The version of Gapless, for all of its packages, and those of other packages."""

from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# Sources that are imported and not installed have no version.
__version__ = version_of("gapless") or "unknown"
