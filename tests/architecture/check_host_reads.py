#!/usr/bin/env python3
"""Finds what makes the host wait for the device on the training path: check_host_reads.py [ROOT].

Between two log points no step reads a value back. In the layers below, every such read must be one of those listed here with
its reason; a listed file that no longer has any is reported too.
"""

import pathlib
import re
import sys

from sources import all_sources

# CPU kernels read CPU tensors: nothing waits.
CPU_KERNELS = ("src", "kernels", "cpu")
LAYERS = {"train", "model", "optim", "kernels", "tasks", "batching"}
HOST_READ = re.compile(r"\.item(?:<|\()|\.cpu\(\)|\.to\([^)]*kCPU|\bsynchronize\(|\.wait\(\)|\b_local_scalar_dense\b")

# file -> why it may read: each is a point where the run stops to log, evaluate, save or predict.
ALLOWED = {
    "src/train/dry_run.cpp": "a rehearsal times its few steps, and is no training",
    "src/train/overfit_batch.cpp": "a check of one batch reads its loss every ten steps, and is no training",
    "src/train/predict.cpp": "predictions are written by the host, a batch at a time, one batch behind the device",
    "src/train/step_log.cpp": "a log point that has arrived, or all of them before an evaluation, a save or the end",
    "src/train/trainer.cpp": "after the first step of a process, to time it; before an evaluation, a save and the end",
}


def breaches(root, allowed):
    unused = dict(allowed)
    for source in all_sources(root):
        if source.layer not in LAYERS or source.path.parts[:3] == CPU_KERNELS:
            continue
        for number, line in source.code_lines():
            match = HOST_READ.search(line)
            if not match:
                continue
            if str(source.path) in allowed:
                unused.pop(str(source.path), None)
            else:
                yield (f"{source.path}:{number}: '{match.group()}' makes the host wait for the device; keep the value "
                       "there until a log point, or list the file with its reason in tests/architecture/check_host_reads.py")
    for path in unused:
        yield f"{path}: listed as a place of host reads, but has none (or is gone): take it off the list"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    found = list(breaches(root, ALLOWED))
    print("\n".join(found) if found else f"host reads: none but in the {len(ALLOWED)} files listed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
