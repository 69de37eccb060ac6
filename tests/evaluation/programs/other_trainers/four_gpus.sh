#!/usr/bin/env bash
# What a machine with four GPUs of 139 GiB can tell in ten minutes: `OUT=FOLDER bash four_gpus.sh` in the
# root of a checkout with Gapless installed. It has run on no GPU yet.
# Limits in seconds: set-up 60, fit on four ranks 120, the study what is left, alone for its times
# count. All together at most 570. $OUT has 3 files. TURNS, LIMIT and GRID (more lines of the study's
# grids, such as a device for a try) may be given.
T0=$(date +%s)
LOG=$OUT
said() { echo "== $* at $(( $(date +%s) - T0 )) s"; }
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
TURNS=${TURNS:-3}
LIMIT=${LIMIT:-555}
python3 - > $LOG/tests.log 2>&1 <<'P'
import torch
print("torch", torch.__version__, "nccl", torch.cuda.nccl.version(), "GPUs", torch.cuda.device_count())
P
cat $LOG/tests.log; nvidia-smi topo -m 2>/dev/null | head -6 | cut -c1-100 >> $LOG/tests.log

# 1. The decorator is compiled once; then fit against reality, on four ranks.
timeout -s INT -k 5 40 python3 -m planners.doctor >> $LOG/tests.log 2>&1
said "doctor"
timeout -s INT -k 5 120 python3 -m pytest -p no:cacheprovider -o addopts= -m four_gpus --tb=short -v \
  --basetemp=/tmp/fits tests/gpu_runtime/fitting/test_on_two_gpus.py >> $LOG/tests.log 2>&1
said "fit"

# 2. The study, alone. Ctrl-C keeps the records of whole programs.
mkdir -p /tmp/x4
cat > /tmp/x4/programs-four-gpus.toml <<T
question = "What does a plan save in training on four GPUs, and what does it cost?"
$(for program in fsdp-tensor-parallel pipeline-of-four expert-parallel; do cat <<G
[[training]]
programs = ["$program"]
gpus = 4
allocators = ["default", "expandable", "planned", "planned:moves=none", "planned:moves=all"]
turns = $TURNS
turn_steps = 4
checks_at_once = 5
$(echo -e "$GRID")
G
done)
T
LEFT=$(( LIMIT - ($(date +%s) - T0) ))
timeout -s INT -k 5 $LEFT python3 -m evaluation.study run /tmp/x4/programs-four-gpus.toml \
  -o $LOG/programs-four-gpus.jsonl > $LOG/study.log 2>&1
tail -3 $LOG/study.log | cut -c1-300
said "the study"

python3 - $LOG <<'P'
import json, sys
from pathlib import Path
log, RANKS = Path(sys.argv[1]), range(4)
file = log / "programs-four-gpus.jsonl"
records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
def gib(size): return "-" if size is None else f"{size / 2**30:.3f}"
def against(said, held):
    if said is None or held is None: return ""
    return "equal" if said == held else f"{said - held:+,}"
print("STUDY program allocator: step ms, bits; by rank reserved/live GiB, PyTorch's said to held, ms in the allocator")
for its in records:
    stats, text = its["statistics"], []
    if its["status"] not in ("feasible", "optimal"):
        print(its["instance"], its["planner"], its["status"], (its["reason"] or "")[:160]); continue
    for rank in RANKS:
        native = [other["statistics"].get(f"rank_{rank}_reserved") for other in records
                  if other["instance"] == its["instance"] and other["planner"] in ("default", "expandable")]
        held = min(native) if len(native) == 2 and None not in native else None
        get = lambda name: stats.get(f"rank_{rank}_{name}")
        text.append(f"{gib(get('reserved'))}/{gib(get('allocated'))} {against(get('pytorch_bytes'), held)} {1e3 * (get('allocator_seconds') or 0):.2f}")
    print(its["instance"], its["planner"], f"{1e3 * stats['step_median_seconds']:.1f}", str(stats.get("bits"))[:6], stats.get("differs", stats.get("check_failed", ""))[:80], "|", " | ".join(text))
print("FIT, measured: function allocator, by rank requested/reserved bytes")
files = sorted(Path("/tmp/fits").glob("ranks*/*-0.json"))
for first in files:
    of = [first.with_name(f"{first.stem[:-2]}-{rank}.json") for rank in RANKS]
    print(first.stem[:-2], *(f"{its['requested']}/{its['reserved']}" for its in (json.loads(one.read_text()) for one in of if one.exists())))
P
echo "TESTS"
grep -E " (PASSED|FAILED|ERROR)|[0-9] (passed|failed|error)|^E +(assert|[A-Za-z.]*Error)" $LOG/tests.log | cut -c1-260 | tail -30
said "end"; ls -la $LOG
