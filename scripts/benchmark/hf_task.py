"""One fine-tuning of Hugging Face's Trainer on JSONL files, in a process of its own. Prints one line of JSON: the test metric.

Usage: hf_task.py SETTINGS.json, where SETTINGS holds task ("sequence_classification", "multi_label_classification", "regression",
"token_classification"), model, train, test (JSONL with text, text_pair and label, or tokens and tags), max_length, batch_size,
steps, warmup, learning_rate, threads, seed, threshold (multi-label).
"""

import json
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
IGNORED = -100


def read_rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def names_of(task, rows):
    if task == "regression":
        return ["value"]
    labels = {label for row in rows for label in (row["tags"] if "tags" in row else
                                                  row["label"] if isinstance(row["label"], list) else [row["label"]])}
    return sorted(labels)


def encode_words(tokenizer, row, ids, max_length):
    """The label of a word at its first piece."""
    encoded = tokenizer(row["tokens"], is_split_into_words=True, truncation=True, max_length=max_length)
    labels, before = [], None
    for word in encoded.word_ids():
        labels.append(IGNORED if word is None or word == before else ids[row["tags"][word]])
        before = word
    return {**encoded, "labels": labels}


def encode(settings, tokenizer, rows, names):
    ids = {name: i for i, name in enumerate(names)}
    task = settings["task"]
    if task == "token_classification":
        return [encode_words(tokenizer, row, ids, settings["max_length"]) for row in rows]
    result = []
    for row in rows:
        encoded = tokenizer(row["text"], row.get("text_pair"), truncation=True, max_length=settings["max_length"])
        if task == "regression":
            label = float(row["label"])
        elif task == "multi_label_classification":
            label = [float(name in row["label"]) for name in names]
        else:
            label = ids[row["label"]]
        result.append({**encoded, "label": label})
    return result


def metric_of(settings, logits, labels, names):
    """The same figure as the program's: macro F1 or accuracy of classes, Spearman of numbers, entity F1 of tags."""
    import numpy
    task = settings["task"]
    if task == "regression":
        from scipy.stats import spearmanr
        return float(spearmanr(logits[:, 0], labels).statistic)
    if task == "multi_label_classification":
        from sklearn.metrics import f1_score
        return float(f1_score(labels, 1 / (1 + numpy.exp(-logits)) >= settings["threshold"], average="micro", zero_division=0))
    best = logits.argmax(-1)
    if task == "token_classification":
        from seqeval.metrics import f1_score
        gold, predicted = [], []
        for row, answer in zip(labels, best):
            kept = row != IGNORED
            gold.append([names[i] for i in row[kept]])
            predicted.append([names[i] for i in answer[kept]])
        return float(f1_score(gold, predicted))
    return float((best == labels).mean())


def main():
    settings = json.load(open(sys.argv[1], encoding="utf-8"))
    import torch
    torch.set_num_threads(settings["threads"])
    import transformers
    from transformers import (AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer,
                              DataCollatorForTokenClassification, DataCollatorWithPadding, Trainer, TrainingArguments)
    transformers.utils.logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    train, test = read_rows(settings["train"]), read_rows(settings["test"])
    names = names_of(settings["task"], train)
    torch.manual_seed(settings["seed"])
    if settings["task"] == "token_classification":
        model = AutoModelForTokenClassification.from_pretrained(settings["model"], num_labels=len(names))
        collator = DataCollatorForTokenClassification(tokenizer)
    else:
        kinds = {"sequence_classification": "single_label_classification"}
        model = AutoModelForSequenceClassification.from_pretrained(
            settings["model"], num_labels=len(names), problem_type=kinds.get(settings["task"], settings["task"]))
        collator = DataCollatorWithPadding(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=settings["steps"], per_device_train_batch_size=settings["batch_size"],
            per_device_eval_batch_size=64, learning_rate=settings["learning_rate"], weight_decay=0.01, max_grad_norm=1.0,
            lr_scheduler_type="linear", warmup_steps=settings["warmup"], optim="adamw_torch_fused", use_cpu=True,
            logging_strategy="no", save_strategy="no", report_to=[], disable_tqdm=True, seed=settings["seed"])
        trainer = Trainer(model=model, args=arguments, data_collator=collator,
                          train_dataset=encode(settings, tokenizer, train, names))
        trainer.train()
        output = trainer.predict(encode(settings, tokenizer, test, names))
    print(json.dumps({"metric": metric_of(settings, output.predictions, output.label_ids, names)}))


main()
