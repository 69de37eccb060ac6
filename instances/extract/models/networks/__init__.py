"""Networks that transformers does not have, written small; these modules import torch."""
