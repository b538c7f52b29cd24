"""Each task against Hugging Face transformers on the same weights, live: ids, logits, loss, gradients, ten updates."""

import csv
import json

import pytest
import reference
import support
import torch
import transformers
from torch.nn import functional

NO_DROPOUT = {"dropout": 0, "attention_dropout": 0, "classifier_dropout": 0}
TAGS = ["B-ANIMAL", "B-PLACE", "I-PLACE", "O"]
IGNORED = -100


def token_rows(count, seed):
    """Rows of words with tags: of several pieces, of none (blank), unknown to the vocabulary; one row is long."""
    rows = []
    for text, topic in support.make_rows(count, seed, longest=9):
        words = text.split() + ["Catfish,", "\u00a0", "x1z"]
        tags = ["B-ANIMAL" if w in support.TOPICS["animals"] else "B-PLACE" if w in support.TOPICS["places"] else "O"
                for w in words]
        rows.append({"tokens": words, "tags": [*tags[:-3], None, "O", "O"]})
    rows[1]["tokens"] *= 12
    rows[1]["tags"] *= 12
    return rows


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def hugging_face_tokenizer(directory):
    return transformers.AutoTokenizer.from_pretrained(directory)


class Words:
    """Tags of words: the label is on a word's first piece."""

    num_labels, kind = len(TAGS), "BertForTokenClassification"
    config = {"task": {"type": "token_classification", "labels": TAGS}}

    def __init__(self, folder, model):
        rows = token_rows(20, seed=31)
        self.data = write_rows(folder / "train.jsonl", rows)
        tokenizer = hugging_face_tokenizer(model)
        self.rows, self.labels, self.places = [], [], []
        for row in rows:
            encoded = tokenizer(row["tokens"], is_split_into_words=True, truncation=True, max_length=64)
            words = encoded.word_ids()
            places = [p for p, word in enumerate(words) if word is not None and word not in words[:p]]
            labels = [IGNORED] * len(words)
            for place in places:
                tag = row["tags"][words[place]]
                labels[place] = TAGS.index(tag) if tag else IGNORED
            self.places.append(places)
            self.rows.append((encoded["input_ids"], encoded["token_type_ids"]))
            self.labels.append(labels)

    def loss(self, logits, numbers):
        labels = torch.full(logits.shape[:2], IGNORED)
        for i, number in enumerate(numbers):
            labels[i, :len(self.labels[number])] = torch.tensor(self.labels[number])
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


class Fields(Words):
    """Labels of fields, each read at its own mark; the label 10 counts nothing."""

    num_labels = 3
    config = {"task": {"type": "token_classification", "ignore_index": 10, "labels": ["0", "1", "2"]},
              "data": {"fields": "columns", "label": "labels"}}

    def __init__(self, folder, model):
        tokenizer = hugging_face_tokenizer(model)
        rows, self.rows, self.labels, self.places = [], [], [], []
        texts = support.make_rows(60, seed=41, longest=6)
        for number in range(20):
            fields = [text for text, _ in texts[3 * number:3 * number + 1 + number % 3]]
            labels = [[0, 1, 2, 10][(number + i) % 4] for i in range(len(fields))]
            rows.append({"text": texts[number][0], "columns": fields, "labels": labels})
            ids, places = list(tokenizer(texts[number][0])["input_ids"]), []
            for field in fields:
                places.append(len(ids))
                ids += tokenizer(field)["input_ids"]
            self.rows.append((ids, [0] * len(ids)))
            self.places.append(places)
            self.labels.append([IGNORED] * len(ids))
            for place, label in zip(places, labels):
                self.labels[-1][place] = IGNORED if label == 10 else label
        self.data = write_rows(folder / "train.jsonl", rows)


class MultiLabel:
    num_labels, kind = 3, "BertForSequenceClassification"
    pos_weight = [0.5, 2.0, 3.0]
    config = {"task": {"type": "multi_label_classification", "pos_weight": pos_weight}, "data": {"label_separator": "|"}}

    def __init__(self, folder, model):
        rows = support.make_rows(20, seed=51, longest=20)
        topics = sorted(support.TOPICS)
        sets = [[t for i, t in enumerate(topics) if (n >> i) & 1] for n in range(len(rows))]
        self.data = support.write_csv(folder / "train.csv", [(t, "|".join(s)) for (t, _), s in zip(rows, sets)])
        self.labels = torch.tensor([[float(t in s) for t in topics] for s in sets])
        self.rows = encoded(model, rows)

    def loss(self, logits, numbers):
        weight = torch.tensor(self.pos_weight)
        return functional.binary_cross_entropy_with_logits(logits, self.labels[numbers], pos_weight=weight)


class Regression:
    num_labels, kind = 1, "BertForSequenceClassification"
    config = {"task": {"type": "regression"}}

    def __init__(self, folder, model):
        rows = support.make_rows(20, seed=61, longest=20)
        values = [round(0.37 * (n % 7) - 1, 2) for n in range(len(rows))]
        self.data = support.write_csv(folder / "train.csv", [(t, v) for (t, _), v in zip(rows, values)])
        self.labels = torch.tensor(values)
        self.rows = encoded(model, rows)

    def loss(self, logits, numbers):
        return functional.mse_loss(logits.squeeze(1), self.labels[numbers])


class Weighted:
    """One class a row, weighted, with smoothing: the divisor is the sum of the weights."""

    num_labels, kind = 3, "BertForSequenceClassification"
    config = {"task": {"class_weights": {"places": 5.0, "animals": 0.5}, "label_smoothing": 0.1}}

    def __init__(self, folder, model):
        rows = support.make_rows(20, seed=71, longest=20)
        self.data = support.write_csv(folder / "train.csv", rows)
        self.labels = torch.tensor([sorted(support.TOPICS).index(topic) for _, topic in rows])
        self.rows = encoded(model, rows)

    def loss(self, logits, numbers):
        weight = torch.tensor([0.5, 1.0, 5.0])
        return functional.cross_entropy(logits, self.labels[numbers], weight=weight, label_smoothing=0.1)


def encoded(model, rows):
    tokenizer = hugging_face_tokenizer(model)
    return [(ids["input_ids"], ids["token_type_ids"]) for ids in (tokenizer(text) for text, _ in rows)]


def save_model(directory, kind, num_labels):
    """As reference.save_classifier, of any class."""
    directory.mkdir(parents=True)
    settings = {key: value for key, value in support.bert_config().items() if key != "architectures"}
    model = getattr(transformers, kind)(transformers.BertConfig(**settings, num_labels=num_labels))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator) * 0.1
            parameter.copy_(values + 1 if name.endswith("LayerNorm.weight") else values)
    model.save_pretrained(directory)
    support.write_tokenizer(directory)
    return directory


def load_model(directory, kind):
    model, info = getattr(transformers, kind).from_pretrained(
        directory, attn_implementation="eager", output_loading_info=True, dtype=torch.float32)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.eval()


def answered(task, logits, numbers):
    """Of padded logits those that the program gives: of rows, or of the places of their items."""
    if logits.dim() == 2:
        return logits
    return torch.cat([logits[i, task.places[n]] for i, n in enumerate(numbers)])


@pytest.mark.parametrize("make", [Words, Fields, MultiLabel, Regression, Weighted])
def test_as_transformers(tmp_path, make):
    model_directory = save_model(tmp_path / "model", make.kind, make.num_labels)
    task = make(tmp_path, model_directory)
    base = {"model": dict(NO_DROPOUT), "data": {"shuffle": False}, "train": {"batch_size": 7, "micro_batch_size": 3},
            "optimizer": {"learning_rate": 3e-4, "weight_decay": 0.05}, "schedule": {"type": "linear", "warmup": 3}}
    config = support.write_config(tmp_path / "config.json", model_directory, task.data,
                                  **support.merged(base, task.config))
    everything = list(range(len(task.rows)))
    seen = reference.probe(config, tmp_path / "seen.safetensors", 1, f"train.batch_size={len(task.rows)}")
    for (ids, types), (expected_ids, expected_types) in zip(reference.rows_of(seen), task.rows, strict=True):
        assert ids.tolist() == list(expected_ids) and types.tolist() == list(expected_types)

    model = load_model(model_directory, make.kind)
    logits = model(**reference.padded(task.rows)).logits
    loss = task.loss(logits, everything)
    loss.backward()
    expected = answered(task, logits, everything)
    assert seen["logits"].shape == expected.shape
    assert (seen["logits"] - expected).abs().max().item() < 1e-5
    assert seen["loss"].item() == pytest.approx(loss.item(), abs=1e-5)
    error, where = reference.gradient_error(seen, model)
    assert error < 1e-5, where

    seen = reference.probe(config, tmp_path / "seen.safetensors", 10)
    model = load_model(model_directory, make.kind)
    optimizer = torch.optim.AdamW(reference.decay_groups(model, 0.05), lr=3e-4)
    scheduler = transformers.get_scheduler("linear", optimizer, num_warmup_steps=3, num_training_steps=10)
    losses = []
    for window in reference.windows_in_file_order(len(task.rows), 7, 10):
        loss = task.loss(model(**reference.padded([task.rows[n] for n in window])).logits, window)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    assert seen["losses"].tolist() == pytest.approx(losses, rel=2e-5)
    with torch.no_grad():
        logits = model(**reference.padded(task.rows)).logits
    assert seen["final_loss"].item() == pytest.approx(task.loss(logits, everything).item(), rel=2e-5)
