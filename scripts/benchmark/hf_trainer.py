"""One measured run of Hugging Face's Trainer, in a process of its own. Prints one line of JSON.

Usage: hf_trainer.py SETTINGS.json, where SETTINGS holds model, data, text, text_pair, label, max_length, batch_size, steps, warmup_steps,
threads, precision, sampling ("random" or "group_by_length"), compile, pad_to_max_length; on a GPU with cuda; without loading weights
with init "random".
"""

import csv
import json
import os
import resource
import sys
import tempfile
import time

STARTED = time.time()
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


def read_rows(settings):
    with open(settings["data"], newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def encode(settings, rows, tokenizer):
    """Token ids of every row, without padding; labels numbered in sorted order."""
    names = sorted({row[settings["label"]] for row in rows})
    ids = {name: i for i, name in enumerate(names)}
    pair = settings.get("text_pair")
    encoded = tokenizer([row[settings["text"]] for row in rows], [row[pair] for row in rows] if pair else None,
                        truncation=True, max_length=settings["max_length"])
    return [{**{key: encoded[key][i] for key in encoded}, "label": ids[row[settings["label"]]]}
            for i, row in enumerate(rows)], names


def main():
    settings = json.load(open(sys.argv[1], encoding="utf-8"))
    import torch
    torch.set_num_threads(settings["threads"])
    import transformers
    from transformers import (AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer,
                              TrainerCallback, TrainingArguments)
    transformers.utils.logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    dataset, names = encode(settings, read_rows(settings), tokenizer)
    config = AutoConfig.from_pretrained(settings["model"], num_labels=len(names), attn_implementation="sdpa")
    if settings.get("init") == "random":
        model = AutoModelForSequenceClassification.from_config(config)
    else:
        model = AutoModelForSequenceClassification.from_pretrained(settings["model"], config=config)

    class Clock(TrainerCallback):
        def __init__(self):
            self.times = []

        def on_step_end(self, args, state, control, **kwargs):
            self.times.append(time.time())

    clock = Clock()
    padding = {"padding": "max_length", "max_length": settings["max_length"]} if settings["pad_to_max_length"] else {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=settings["steps"], per_device_train_batch_size=settings["batch_size"],
            learning_rate=2e-5, optim="adamw_torch_fused", use_cpu=not settings.get("cuda", False),
            train_sampling_strategy=settings["sampling"], bf16=settings["precision"] == "bf16",
            torch_compile=settings["compile"], logging_strategy="no", save_strategy="no", report_to=[],
            disable_tqdm=True, seed=1)
        Trainer(model=model, args=arguments, train_dataset=dataset, callbacks=[clock],
                data_collator=DataCollatorWithPadding(tokenizer, **padding)).train()
    measured = clock.times[settings["warmup_steps"] - 1:]
    seconds = measured[-1] - measured[0]
    print(json.dumps({
        "samples_per_second": (len(measured) - 1) * settings["batch_size"] / seconds,
        "step_seconds": seconds / (len(measured) - 1),
        "first_step_seconds": clock.times[0] - STARTED,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


main()
