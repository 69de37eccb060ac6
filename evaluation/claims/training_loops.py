"""Names of the recorded training loops that the studies of online allocators replay."""

from __future__ import annotations

# The same requests in every iteration.
LOOPS = ("bert-base", "gpt2-medium", "resnet-50", "mobilenet-v2")
# Mixtures of experts, which get other numbers of tokens in every microbatch: without (n) and with
# (r) recomputation, of even or uneven shares.
MIXTURES = ("qwen2-moe-n", "qwen2-moe-r", "qwen2-moe-n-uneven", "qwen2-moe-r-uneven")
