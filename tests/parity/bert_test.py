"""Logits, loss, gradients and optimizer steps against Hugging Face transformers on the same weights, live."""

import os
import pathlib

import pytest
import reference
import support
import torch

LABELS = list(support.TOPICS)
NO_DROPOUT = {"dropout": 0, "attention_dropout": 0, "classifier_dropout": 0}

# (heads, width, layers, other settings)
SHAPES = {
    "one head": (1, 16, 1, {}),
    "two heads of odd size": (2, 26, 2, {"intermediate_size": 50}),
    "four heads": (4, 64, 3, {"type_vocab_size": 3, "layer_norm_eps": 1e-5}),
    "twelve heads of 4": (12, 48, 2, {}),
    "as wide as MiniLM": (12, 384, 2, {"intermediate_size": 1536}),
}


def make_pairs(count, seed):
    """Rows of two texts; some are very long, in some a text or both are empty."""
    first, second = support.make_rows(count, seed, longest=30), support.make_rows(count, seed + 1, longest=12)
    rows = [(a, b, topic) for (a, topic), (b, _) in zip(first, second)]
    rows[1] = ("", rows[1][1], rows[1][2])
    rows[2] = (rows[2][0], "", rows[2][2])
    rows[3] = ("", "", rows[3][2])
    return rows


@pytest.fixture(scope="module")
def singles(tmp_path_factory):
    """Rows of one text, of 2 to 60 tokens: the first is empty, so that only [CLS] and [SEP] remain."""
    rows = [("", "places"), *support.make_rows(30, seed=3, longest=40)]
    return support.write_csv(tmp_path_factory.mktemp("data") / "singles.csv", rows)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return support.write_csv(tmp_path_factory.mktemp("data") / "pairs.csv", make_pairs(24, seed=5),
                             ("text", "text_pair", "label"))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return reference.save_classifier(tmp_path_factory.mktemp("model") / "bert", len(LABELS))


def config_for(folder, model_directory, data_file, text_pair=None, **changes):
    base = {"task": {"labels": LABELS}, "model": dict(NO_DROPOUT), "data": {"shuffle": False}}
    if text_pair:
        base["data"]["text_pair"] = text_pair
    return support.write_config(folder / "config.json", model_directory, data_file, **support.merged(base, changes))


def all_rows(folder, config, num_rows):
    """Every row as the program encodes it."""
    seen = reference.probe(config, folder / "rows.safetensors", 1, f"train.batch_size={num_rows}")
    assert seen["rows"].tolist() == list(range(num_rows))
    return reference.rows_of(seen)


def labels_in(path):
    import csv

    with open(path, encoding="utf-8", newline="") as file:
        return [LABELS.index(row["label"]) for row in csv.DictReader(file)]


def check_first_update(folder, model_directory, data, text_pair=None, limit=1e-5):
    labels = labels_in(data)
    config = config_for(folder, model_directory, data, text_pair)
    seen = reference.probe(config, folder / "seen.safetensors", 1, f"train.batch_size={len(labels)}")
    model = reference.load_classifier(model_directory)
    loss, logits = reference.loss_of(model, reference.rows_of(seen), labels)
    loss.backward()
    assert (seen["logits"] - logits).abs().max().item() < limit
    assert seen["loss"].item() == pytest.approx(loss.item(), abs=limit)
    error, where = reference.gradient_error(seen, model)
    assert error < limit, where
    return seen


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text_pair", [None, "text_pair"], ids=["single", "pair"])
def test_logits_loss_and_gradients(tmp_path, singles, pairs, shape, text_pair):
    heads, width, layers, settings = SHAPES[shape]
    model = reference.save_classifier(
        tmp_path / "model", len(LABELS), num_attention_heads=heads, hidden_size=width, num_hidden_layers=layers,
        **{"intermediate_size": 2 * width, **settings})
    seen = check_first_update(tmp_path, model, pairs if text_pair else singles, text_pair)
    lengths = seen["lengths"].tolist()
    assert min(lengths) == (3 if text_pair else 2) and max(lengths) > 30
    assert seen["token_type_ids"].any().item() == bool(text_pair)


def check_ten_steps(folder, model_directory, data, batch_size, learning_rate, text_pair=None):
    labels = labels_in(data)
    config = config_for(folder, model_directory, data, text_pair, train={"batch_size": batch_size},
                        optimizer={"learning_rate": learning_rate, "weight_decay": 0.05, "max_grad_norm": 1.0},
                        schedule={"type": "linear", "warmup": 3})
    seen = reference.probe(config, folder / "seen.safetensors", 10)
    rows = all_rows(folder, config, len(labels))
    model = reference.load_classifier(model_directory)
    optimizer = torch.optim.AdamW(reference.decay_groups(model, 0.05), lr=learning_rate)
    windows = reference.windows_in_file_order(len(labels), batch_size, 10)
    losses, norms = reference.train(model, windows, rows, labels, optimizer, "linear", warmup=3)
    assert max(norms) > 1.0, "clipping must take part"
    assert seen["losses"].tolist() == pytest.approx(losses, rel=1e-5)
    assert seen["grad_norms"].tolist() == pytest.approx(norms, rel=1e-4)
    with torch.no_grad():
        loss, logits = reference.loss_of(model, rows, labels)
    assert seen["final_loss"].item() == pytest.approx(loss.item(), rel=1e-5)
    assert (seen["final_logits"] - logits).abs().max().item() < 1e-4
    assert abs(losses[-1] - losses[0]) > 0.01, "ten steps must change the loss"


def test_ten_adamw_steps(tmp_path, singles, classifier):
    check_ten_steps(tmp_path, classifier, singles, batch_size=8, learning_rate=2e-3)


def test_ten_adamw_steps_on_pairs(tmp_path, pairs, classifier):
    check_ten_steps(tmp_path, classifier, pairs, batch_size=7, learning_rate=2e-3, text_pair="text_pair")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A real pretrained encoder with a classifier on it that both sides read from the same directory."""
    from transformers import AutoTokenizer

    source = pathlib.Path(os.environ.get("FINETUNE_TEST_MODEL", ""))
    if not (source / "model.safetensors").is_file():
        pytest.skip("FINETUNE_TEST_MODEL names no folder with a pretrained model")
    directory = tmp_path_factory.mktemp("pretrained") / "minilm"
    torch.manual_seed(5)
    from transformers import BertForSequenceClassification

    BertForSequenceClassification.from_pretrained(source, num_labels=len(LABELS)).save_pretrained(directory)
    AutoTokenizer.from_pretrained(source).save_pretrained(directory)
    return directory


def test_pretrained_logits_loss_and_gradients(tmp_path, pretrained, pairs):
    check_first_update(tmp_path, pretrained, pairs, "text_pair")


def test_pretrained_ten_adamw_steps(tmp_path, pretrained, singles):
    check_ten_steps(tmp_path, pretrained, singles, batch_size=8, learning_rate=2e-4)


@pytest.fixture(scope="module")
def with_dropout(tmp_path_factory, singles, classifier):
    """The first three updates with dropout, in several micro-batch sizes and thread counts."""
    folder = tmp_path_factory.mktemp("dropout")
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "classifier_dropout": 0.3}
    config = config_for(folder, classifier, singles, model=rates, train={"batch_size": 16})
    variants = {
        "whole": ["train.micro_batch_size=16"],
        "micro-batches of 1": ["train.micro_batch_size=1"],
        "micro-batches of 3": ["train.micro_batch_size=3"],
        "two threads": ["train.micro_batch_size=16", "threads=2"],
        "another seed": ["train.micro_batch_size=16", "seed=43"],
        "without dropout": ["train.micro_batch_size=16", *(f"model.{key}=0" for key in rates)],
    }
    return {name: reference.probe(config, folder / "seen.safetensors", 3, *overrides)
            for name, overrides in variants.items()}


@pytest.mark.parametrize("variant", ["micro-batches of 1", "micro-batches of 3", "two threads"])
def test_dropout_does_not_depend_on_how_an_update_is_computed(with_dropout, variant):
    whole, other = with_dropout["whole"], with_dropout[variant]
    assert other["losses"].tolist() == pytest.approx(whole["losses"].tolist(), rel=1e-6)
    assert (other["logits"] - whole["logits"]).abs().max().item() < 1e-5
    gradients = [name for name in whole if name.startswith("grad/")]
    largest = max(whole[name].abs().max().item() for name in gradients)
    for name in gradients:
        assert (other[name] - whole[name]).abs().max().item() / largest < 1e-5, name


@pytest.mark.parametrize("variant", ["another seed", "without dropout"])
def test_dropout_takes_part(with_dropout, variant):
    whole, other = with_dropout["whole"], with_dropout[variant]
    assert (other["logits"] - whole["logits"]).abs().max().item() > 1e-2
    assert abs(other["loss"].item() - whole["loss"].item()) > 1e-3


def test_each_step_draws_its_own_dropout(tmp_path, singles, classifier):
    rates = {"dropout": 0.1, "attention_dropout": 0.1}
    labels = labels_in(singles)
    config = config_for(tmp_path, classifier, singles, model=rates, optimizer={"learning_rate": 0},
                        train={"batch_size": len(labels)})
    first, second = reference.probe(config, tmp_path / "seen.safetensors", 2)["losses"].tolist()
    assert abs(first - second) > 1e-4


def test_label_smoothing(tmp_path, singles, classifier):
    labels = labels_in(singles)
    config = config_for(tmp_path, classifier, singles, task={"label_smoothing": 0.1},
                        train={"batch_size": len(labels)})
    seen = reference.probe(config, tmp_path / "seen.safetensors", 1)
    model = reference.load_classifier(classifier)
    loss, _ = reference.loss_of(model, reference.rows_of(seen), labels, smoothing=0.1)
    loss.backward()
    assert seen["loss"].item() == pytest.approx(loss.item(), rel=1e-5)
    assert reference.gradient_error(seen, model)[0] < 1e-5
