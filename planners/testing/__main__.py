"""Runs the tests of this package under pytest."""

import sys
from pathlib import Path

from planners.errors import MissingDependencyError

try:
    import pytest
except ImportError:
    error = MissingDependencyError("planners.testing needs pytest: pip install pytest")
    sys.exit(f"error: {error}")

if __name__ == "__main__":
    sys.exit(pytest.main([str(Path(__file__).parent), *sys.argv[1:]]))
