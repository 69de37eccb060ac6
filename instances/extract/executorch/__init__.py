"""The memory that ExecuTorch plans for a network, as an instance."""
