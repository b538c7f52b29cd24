"""Rate of the reference tokenizer, one thread: tokenizers_rate.py MODEL TEXTS. Prints one line of JSON."""

import json
import os
import pathlib
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer  # noqa: E402

tokenizer = Tokenizer.from_file(str(pathlib.Path(sys.argv[1]) / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.no_truncation()
texts = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").split("\n")
size = sum(len(text.encode()) for text in texts)
best = float("inf")
for _ in range(3):
    began = time.perf_counter()
    tokenizer.encode_batch_fast(texts)
    best = min(best, time.perf_counter() - began)
print(json.dumps({"megabytes_per_second": size / best / 1e6}))
