"""Names of the recorded runs that the studies of online allocators replay."""

from __future__ import annotations

from evaluation.recordings import routed_mixture, traced_loops
from evaluation.recordings.recorded_runs import run_name

# The same requests in every iteration.
LOOPS = tuple(run_name(loop) for loop in traced_loops.LOOPS)
# Mixtures of experts, which get other numbers of tokens in every microbatch: without (n) and with
# (r) recomputation, of even or uneven shares.
MIXTURES = tuple(run_name(mixture) for mixture in routed_mixture.MIXTURES)
# Recorded on a GPU, and given by whoever runs a study.
RECORDED_MIXTURE = "qwen-moe-R"
EVERY_MIXTURE = (*MIXTURES, RECORDED_MIXTURE)
