#!/usr/bin/env bash
#SBATCH --job-name=finetune
#SBATCH --array=0-7
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@180
#SBATCH --time=04:00:00
#SBATCH --gpus=1
#
# One run a task of a Slurm job array, requeued with `--resume auto` until it is done:
#
#     sbatch --array=0-2 scripts/slurm-array.sh CONFIG RUNS.txt [OUTPUT_DIR]
#
# RUNS.txt holds one run a line: the config keys that it sets, such as `seed=1 optimizer.learning_rate=3e-5`. The task of number N
# takes line N, counted from 0, and trains into OUTPUT_DIR/run-000N (runs/array). Three minutes before the time limit, and when
# it is preempted, the run saves its state and the task is put back into the queue. finetune must be on the PATH.
set -euo pipefail

fail() { echo "slurm-array: $*" >&2; exit 2; }

[ $# -ge 2 ] && [ $# -le 3 ] || fail "usage: sbatch --array=0-N slurm-array.sh CONFIG RUNS.txt [OUTPUT_DIR]"
config=$1 list=$2 output_dir=${3-runs/array}
task=${SLURM_ARRAY_TASK_ID:?this is the script of a Slurm job array; start it with sbatch}
[ -r "$list" ] || fail "cannot read $list, the list of runs"
mapfile -t runs < <(grep -v '^[[:space:]]*\(#\|$\)' "$list")
[ "$task" -lt ${#runs[@]} ] || fail "task $task: $list has ${#runs[@]} runs; submit with --array=0-$((${#runs[@]} - 1))"

read -ra settings <<<"${runs[task]}"
options=()
for setting in "${settings[@]}"; do options+=(--set "$setting"); done

pid= interrupted=no
trap 'interrupted=yes; [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null || true' TERM
finetune --config "$config" --output-dir "$output_dir/run-$(printf %04d "$task")" --resume auto "${options[@]}" &
pid=$!
while :; do
  interrupted=no code=0
  wait "$pid" || code=$?
  [ "$interrupted" = yes ] || break # the signal ended `wait`, not the run
done
if [ "$code" -eq 143 ]; then
  echo "slurm-array: state saved; back into the queue" >&2
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_$task"
fi
exit "$code"
