#!/usr/bin/env bash
# The tests for two GPUs and trainers of others, in five minutes on two of 139 GiB:
# `OUT=FOLDER bash two_gpus.sh` in the root of a checkout, with Gapless, torchtitan 0.2.2 and TRL 1.16
# installed. Bytes count here; for times, run the study `programs-two-gpus` alone.
T0=$(date +%s)
LOG=$OUT
said() { echo "== $* at $(( $(date +%s) - T0 )) s"; }
HERE=tests/evaluation/programs/other_trainers
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
TORCHRUN="python3 -m torch.distributed.run --standalone --nproc-per-node 2"
P="python3 -m pytest -p no:cacheprovider -o addopts= -m gpus --tb=short -v"
python3 - > $LOG/tests.log 2>&1 <<'P'
import torch
from torch._C._distributed_c10d import Backend
print("torch", torch.__version__, "nccl", torch.cuda.nccl.version(), "GPUs", torch.cuda.device_count())
print("Backend.suspend is offered:", hasattr(Backend, "suspend"))
P
cat $LOG/tests.log; nvidia-smi topo -m 2>/dev/null | head -4 | cut -c1-100 >> $LOG/tests.log

# 1. The decorator is compiled once, and the one test that counts the device's free bytes is alone.
timeout -s INT -k 5 30 python3 -m planners.doctor >> $LOG/tests.log 2>&1
timeout -s INT -k 5 50 $P tests/gpu_runtime/allocator/test_on_two_gpus.py -k pauses >> $LOG/tests.log 2>&1
said "doctor and the test of pauses"

# 2. All other tests marked gpus, beside torchtitan, of which bytes count and times do not.
python3 $HERE/torchtitan_run.py prepare /tmp/tt > $LOG/torchtitan.log 2>&1 || tail -3 $LOG/torchtitan.log
titan() { # allocator, flavor, batch
  PYTHONPATH=/tmp/tt:$PYTHONPATH timeout -k 5 105 $TORCHRUN $HERE/torchtitan_run.py run /tmp/tt $1 $2 \
    $LOG/torchtitan.jsonl --batch $3 > /tmp/tt-$1-$2.log 2>&1; echo "titan $1 $2 rc $?" >> $LOG/torchtitan.log
}
for how in default expandable planned; do titan $how debugmodel 32 & titan $how hundreds 8 & done
python3 $HERE/grpo_run.py prepare /tmp/grpo-model --layers 10 > $LOG/grpo.log 2>&1 &
timeout -s INT -k 5 110 $P -n 6 --dist load tests/gpu_runtime/allocator/test_on_two_gpus.py \
  tests/gpu_runtime/integrations/test_on_two_gpus.py \
  tests/evaluation/study/test_training.py -k "not pauses" >> $LOG/tests.log 2>&1
wait
for f in /tmp/tt-*.log; do echo "#### $f"; tail -c 6000 $f; done >> $LOG/torchtitan.log
said "tests and torchtitan"

# 3. Fit against reality, beside GRPO.
grpo() {
  timeout -k 5 150 $TORCHRUN $HERE/grpo_run.py $1 /tmp/grpo-model --out $LOG/grpo.jsonl > /tmp/grpo-$1.log 2>&1
  echo "grpo $1 rc $?" >> $LOG/grpo.log
}
for how in expandable planned paused; do grpo $how & done
timeout -s INT -k 5 150 $P --basetemp=/tmp/fits tests/gpu_runtime/fitting/test_on_two_gpus.py >> $LOG/tests.log 2>&1
wait
for f in /tmp/grpo-*.log; do echo "#### $f"; tail -c 6000 $f; done >> $LOG/grpo.log
said "fit and GRPO"

python3 - $LOG <<'P'
import json, sys
from pathlib import Path
log = Path(sys.argv[1])
def lines(name):
    file = log / name
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
def gib(size): return "-" if size is None else f"{size / 2**30:.3f}"
def against(said, held):
    if said is None or held is None: return ""
    return "said equal" if said == held else f"said {said - held:+,} bytes"
print("TORCHTITAN")
every = lines("torchtitan.jsonl")
for its in sorted(every, key=lambda one: (one["program"], one["rank"], one["allocator"])):
    native = [one["reserved"] for one in every if one["program"] == its["program"] and one["rank"] == its["rank"] and one["allocator"] != "planned"]
    held = min(native) if len(native) == 2 else None
    print(its["program"], its["rank"], its["allocator"], gib(its.get("reserved")), "live", gib(its.get("allocated")), against(its.get("pytorch_said"), held), its.get("planned_steps", ""), its["step_ms"], "ms", its["losses"])
print("GRPO")
for its in sorted(lines("grpo.jsonl"), key=lambda one: (one["rank"], one["allocator"])):
    given = {tag: gib(one["most"]) for tag, one in its["given"].items()}
    peaks = {name: f"{gib(one['reserved_peak'])} (driver {gib(one['driver_now'])})" for name, one in its["phases"].items()}
    print(its["program"], its["rank"], its["allocator"], "given", given, "nccl", str(its["nccl"])[:80], peaks, its["seconds"], its["step_ms"], "ms", its["weights"])
P
echo "FIT, measured"; (cd /tmp/fits/ranks* 2>/dev/null && grep . *.json) | tee -a $LOG/tests.log
echo "TESTS"
grep -E " (PASSED|FAILED|ERROR)|[0-9] (passed|failed|error)|^E +(assert|[A-Za-z.]*Error)" $LOG/tests.log | cut -c1-260 | tail -45
grep " rc " $LOG/torchtitan.log $LOG/grpo.log | grep -v "rc 0"
said "end"; ls -la $LOG
