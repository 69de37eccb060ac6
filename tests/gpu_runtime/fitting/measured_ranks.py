"""A training on several GPUs, a process for each, and the memory that it takes there.

``torchrun --nproc-per-node N -m tests.gpu_runtime.fitting.measured_ranks FUNCTION LABEL FOLDER``
writes a file for each rank, under the allocator that the label means in predictions.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

STEPS = 6


def main(function: str, label: str, folder: Path) -> None:
    if label == "pytorch-expandable":
        # PyTorch reads it when it is first imported.
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch
    from torch import distributed

    from gpu_runtime import PlannedMemory
    from tests.instances.extract.record.ranks import llama_on_two_gpus

    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    memory = None
    if label == "planned":
        memory = PlannedMemory(device=rank, _planning="between")
        memory.install()
    distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    step = getattr(llama_on_two_gpus, function)()
    for _ in range(STEPS):
        with memory.step() if memory else nullcontext():
            step()
    figures = torch.cuda.memory_stats()
    said = {kind: figures[f"{kind}_bytes.all.peak"] for kind in ("requested", "reserved")}
    (folder / f"{function}-{label}-{rank}.json").write_text(json.dumps(said))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
