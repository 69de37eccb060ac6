"""The version of Gapless, for all of its packages."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("gapless")
except PackageNotFoundError:  # imported from its source, and not installed
    __version__ = "unknown"
