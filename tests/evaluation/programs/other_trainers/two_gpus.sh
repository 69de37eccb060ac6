#!/usr/bin/env bash
# What a machine with two GPUs of 139 GiB can tell in ten minutes: `OUT=FOLDER bash two_gpus.sh` in the
# root of a checkout, with Gapless, torchtitan 0.2.2 and TRL 1.16 installed. It has run on no GPU yet.
# Limits in seconds: set-up and first tests 60; tests beside torchtitan 115; fit beside GRPO 95; the
# study 285, alone for its times count. All together at most 570. $OUT has 8 files.
T0=$(date +%s)
LOG=$OUT
said() { echo "== $* at $(( $(date +%s) - T0 )) s"; }
HERE=tests/evaluation/programs/other_trainers
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
TORCHRUN="python3 -m torch.distributed.run --standalone --nproc-per-node 2"
P="python3 -m pytest -p no:cacheprovider -o addopts= -m gpus --tb=short -v"
TURNS=${TURNS:-3}
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
  timeout -k 5 88 $TORCHRUN $HERE/grpo_run.py $1 /tmp/grpo-model --out $LOG/grpo.jsonl > /tmp/grpo-$1.log 2>&1
  echo "grpo $1 rc $?" >> $LOG/grpo.log
}
for how in expandable planned paused; do grpo $how & done
timeout -s INT -k 5 90 $P --basetemp=/tmp/fits tests/gpu_runtime/fitting/test_on_two_gpus.py >> $LOG/tests.log 2>&1
wait
for f in /tmp/grpo-*.log; do echo "#### $f"; tail -c 6000 $f; done >> $LOG/grpo.log
said "fit and GRPO"

# 4. The study, alone. Ctrl-C keeps the records of whole programs.
mkdir -p /tmp/x2
cat > /tmp/x2/programs-two-gpus.toml <<T
question = "What does a plan save in training on two GPUs, and what does it cost?"
$(for programs in '"fsdp-checkpointed", "pipeline"' '"ddp", "tensor-parallel", "fsdp"'; do cat <<G
[[training]]
programs = [$programs]
gpus = 2
allocators = ["default", "expandable", "planned", "planned:moves=none", "planned:moves=all"]
turns = $TURNS
turn_steps = 4
checks_at_once = 5
G
done)
T
LEFT=$(( ${LIMIT:-555} - ($(date +%s) - T0) ))
timeout -s INT -k 5 $LEFT python3 -m evaluation.study run /tmp/x2/programs-two-gpus.toml \
  -o $LOG/programs-two-gpus.jsonl > $LOG/study.log 2>&1
tail -3 $LOG/study.log | cut -c1-300
said "the study"

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
records = lines("programs-two-gpus.jsonl")
print("STUDY program allocator: step ms, bits; by rank reserved/live GiB, PyTorch's said to held, ms in the allocator")
for its in records:
    stats, text = its["statistics"], []
    if its["status"] not in ("feasible", "optimal"):
        print(its["instance"], its["planner"], its["status"], (its["reason"] or "")[:120]); continue
    for rank in range(2):
        native = [other["statistics"].get(f"rank_{rank}_reserved") for other in records
                  if other["instance"] == its["instance"] and other["planner"] in ("default", "expandable")]
        held = min(native) if len(native) == 2 and None not in native else None
        get = lambda name: stats.get(f"rank_{rank}_{name}")
        text.append(f"{gib(get('reserved'))}/{gib(get('allocated'))} {against(get('pytorch_bytes'), held)} {1e3 * (get('allocator_seconds') or 0):.2f}")
    print(its["instance"], its["planner"], f"{1e3 * stats['step_median_seconds']:.1f}", str(stats.get("bits"))[:6], stats.get("differs", stats.get("check_failed", ""))[:80], "|", " | ".join(text))
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
