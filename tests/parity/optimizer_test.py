"""Optimizers and schedules against torch.optim and transformers.get_scheduler on a whole model, live."""

import pytest
import reference
import support
import torch

LABELS = list(support.TOPICS)
NUM_ROWS, BATCH = 20, 8


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("optimizer")
    model = reference.save_classifier(folder / "model", len(LABELS), hidden_size=16, num_hidden_layers=1,
                                      num_attention_heads=2, intermediate_size=24)
    rows = support.make_rows(NUM_ROWS, seed=9)
    data = support.write_csv(folder / "train.csv", rows)
    config = support.write_config(
        folder / "config.json", model, data, task={"labels": LABELS}, data={"shuffle": False},
        model={"dropout": 0, "attention_dropout": 0, "classifier_dropout": 0}, train={"batch_size": BATCH},
        schedule={"type": "constant", "warmup": 0})
    seen = reference.probe(config, folder / "rows.safetensors", 1, f"train.batch_size={NUM_ROWS}")
    return model, config, reference.rows_of(seen), [LABELS.index(label) for _, label in rows]


def layer_groups(model, rate, decay, weight_decay):
    """Of a model of one layer: head and pooler, the layer, the embeddings."""
    steps = {"classifier": 0, "bert.pooler": 0, "bert.encoder": 1, "bert.embeddings": 2}
    return [{"params": [parameter], "lr": rate * decay ** next(n for start, n in steps.items() if name.startswith(start)),
             "weight_decay": 0 if name.endswith(("bias", "LayerNorm.weight")) else weight_decay}
            for name, parameter in model.named_parameters()]


def own_groups(model):
    """The classifier at a rate of its own, queries without decay, else Hugging Face's groups."""
    return [{"params": [parameter], "lr": 0.01 if name.startswith("classifier") else 1e-3,
             "weight_decay": 0 if name.endswith(("bias", "LayerNorm.weight")) or ".query." in name else 0.1}
            for name, parameter in model.named_parameters()]


def frozen(model):
    for name, parameter in model.named_parameters():
        if "embeddings" in name or ".query." in name or ".attention.output." in name:
            parameter.requires_grad_(False)
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


OPTIMIZERS = {
    "sgd": (["optimizer.type=sgd", "optimizer.learning_rate=0.1"],
            lambda model: torch.optim.SGD(model.parameters(), lr=0.1)),
    "sgd with decay": (["optimizer.type=sgd", "optimizer.learning_rate=0.1", "optimizer.weight_decay=0.1"],
                       lambda model: torch.optim.SGD(reference.decay_groups(model, 0.1), lr=0.1)),
    "adam": (["optimizer.type=adam", "optimizer.learning_rate=1e-3"],
             lambda model: torch.optim.Adam(model.parameters(), lr=1e-3)),
    "adam with decay": (["optimizer.type=adam", "optimizer.learning_rate=1e-3", "optimizer.weight_decay=0.1"],
                        lambda model: torch.optim.Adam(reference.decay_groups(model, 0.1), lr=1e-3)),
    "adamw": (["optimizer.learning_rate=1e-3", "optimizer.weight_decay=0.1", "optimizer.betas=[0.8, 0.95]",
               "optimizer.eps=1e-6"],
              lambda model: torch.optim.AdamW(reference.decay_groups(model, 0.1), lr=1e-3, betas=(0.8, 0.95),
                                              eps=1e-6)),
    "amsgrad": (["optimizer.type=adam", "optimizer.learning_rate=1e-3", "optimizer.amsgrad=true"],
                lambda model: torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)),
    "adamw with amsgrad": (
        ["optimizer.learning_rate=1e-3", "optimizer.weight_decay=0.1", "optimizer.amsgrad=true",
         "optimizer.betas=[0.5, 0.6]"],
        lambda model: torch.optim.AdamW(reference.decay_groups(model, 0.1), lr=1e-3, betas=(0.5, 0.6), amsgrad=True)),
    "adamw, rates by layer": (
        ["optimizer.learning_rate=1e-2", "optimizer.weight_decay=0.1", "optimizer.layerwise_lr_decay=0.5"],
        lambda model: torch.optim.AdamW(layer_groups(model, 1e-2, 0.5, 0.1))),
    "sgd, rates by layer": (
        ["optimizer.type=sgd", "optimizer.learning_rate=0.1", "optimizer.layerwise_lr_decay=0.5"],
        lambda model: torch.optim.SGD(layer_groups(model, 0.1, 0.5, 0))),
    "amsgrad, rates by layer": (
        ["optimizer.learning_rate=1e-2", "optimizer.amsgrad=true", "optimizer.layerwise_lr_decay=0.5"],
        lambda model: torch.optim.AdamW(layer_groups(model, 1e-2, 0.5, 0.01), amsgrad=True)),
    "adamw with groups": (
        ["optimizer.learning_rate=1e-3", "optimizer.weight_decay=0.1",
         'optimizer.groups=[{"patterns": "^classifier", "learning_rate": 0.01}, {"patterns": ["[.]query[.]"], "weight_decay": 0}]'],
        lambda model: torch.optim.AdamW(own_groups(model))),
    "frozen": (
        ["optimizer.type=adam", "optimizer.learning_rate=1e-3",
         'model.freeze=["embeddings", "[.]query[.]", "[.]attention[.]output[.]"]'],
        lambda model: torch.optim.Adam(frozen(model), lr=1e-3)),
    "adamw with decay of everything": (
        ["optimizer.learning_rate=1e-3", "optimizer.weight_decay=0.1", "optimizer.no_decay=[]"],
        lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("max_norm", [0, 0.5], ids=["unclipped", "clipped"])
def test_optimizer(tmp_path, setting, name, max_norm):
    directory, config, rows, labels = setting
    overrides, make_optimizer = OPTIMIZERS[name]
    seen = reference.probe(config, tmp_path / "seen.safetensors", 6, *overrides, f"optimizer.max_grad_norm={max_norm}")
    model = reference.load_classifier(directory)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    losses, norms = reference.train(model, reference.windows_in_file_order(NUM_ROWS, BATCH, 6), rows, labels,
                                    make_optimizer(model), max_norm=max_norm)
    assert max(norms) > 0.5, "clipping must take part"
    assert seen["losses"].tolist() == pytest.approx(losses, rel=1e-5)
    assert seen["grad_norms"].tolist() == pytest.approx(norms, rel=1e-4)
    for key, value in model.state_dict().items():
        # The gradient of a key's bias is zero in theory and noise in practice, which Adam turns into whole steps.
        if key.endswith("key.bias"):
            continue
        moved = (value - before[key]).abs().max().item()
        difference = (seen["param/" + key] - value).abs().max().item()
        assert difference <= 1e-3 * moved + 1e-6, key


SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant_with_warmup", "polynomial": "polynomial",
             "inverse_sqrt": "inverse_sqrt"}


@pytest.mark.parametrize("warmup", [0, 4])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_learning_rates(tmp_path, setting, schedule, warmup):
    _, config, _, _ = setting
    steps = 14
    seen = reference.probe(config, tmp_path / "seen.safetensors", steps, f"schedule.type={schedule}",
                           f"schedule.warmup={warmup}", "optimizer.learning_rate=0.003")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.003)
    scheduler = reference.get_scheduler(SCHEDULES[schedule], optimizer, warmup, steps)
    expected = []
    for _ in range(steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert seen["used_rates"].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert seen["learning_rates"].tolist()[:steps] == seen["used_rates"].tolist()
    if warmup:
        assert expected[0] == 0 < expected[1] < expected[warmup]


def test_warmup_as_a_fraction_is_rounded_up(tmp_path, setting):
    """As transformers' warmup_ratio: ceil(0.1 * 11) = 2 steps."""
    _, config, _, _ = setting
    rates = reference.probe(config, tmp_path / "seen.safetensors", 11, "schedule.type=constant", "schedule.warmup=0.1",
                            "optimizer.learning_rate=1")["used_rates"].tolist()
    assert rates == [0, 0.5, *[1] * 9]
