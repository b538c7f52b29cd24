"""A .pth of a Python script with a class of its own: gone on from as Python goes on from it, and given back to it."""

import json

import pytest
import reference
import support
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification, BertModel

LABELS = list(support.TOPICS)
BATCH, STEPS_PER_EPOCH = 4, 5
RENAME = [["^encoder[.]", "bert."], ["^fc[.]", "classifier."]]
CASE = support.TEST_DATA / "cases" / "25-optimizer-state-variants"


class Net(torch.nn.Module):
    """The script's own class around the encoder."""

    def __init__(self, settings):
        super().__init__()
        self.encoder = BertModel(settings)
        self.fc = torch.nn.Linear(settings.hidden_size, len(LABELS))

    def forward(self, batch):
        return self.fc(self.encoder(**batch).pooler_output)


class Script:
    """The training script: dropout 0, rows in file order."""

    def __init__(self, folder):
        self.folder = folder
        support.make_encoder(folder / "encoder", hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                             intermediate_size=24)
        rows = support.make_rows(BATCH * STEPS_PER_EPOCH, seed=5)
        self.data = support.write_csv(folder / "train.csv", rows)
        self.labels = torch.tensor([LABELS.index(label) for _, label in rows])
        texts = "".join(text + "\n" for text, _ in rows)
        encoded = support.finetune("tokenize", "--model", folder / "encoder", stdin=texts).lines()
        self.rows = [(line["input_ids"], [0] * len(line["input_ids"])) for line in encoded]
        settings = json.loads((folder / "encoder" / "config.json").read_text())
        settings.update(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")
        self.settings = BertConfig(**{k: v for k, v in settings.items() if k not in ("architectures", "model_type")})

    def net(self, seed=3):
        torch.manual_seed(seed)
        net = Net(self.settings).train()
        with torch.no_grad():
            for parameter in net.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.1)
        return net

    def train(self, net, optimizer, first_step, steps):
        losses = []
        for step in range(first_step, first_step + steps):
            first = step % STEPS_PER_EPOCH * BATCH
            batch = reference.padded(self.rows[first:first + BATCH])
            loss = torch.nn.functional.cross_entropy(net(batch), self.labels[first:first + BATCH])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def config(self, name, **changes):
        base = {"output_dir": name, "task": {"labels": LABELS},
                "model": {"dropout": 0, "attention_dropout": 0, "classifier_dropout": 0, "rename": RENAME},
                "data": {"shuffle": False}, "train": {"epochs": 2, "batch_size": BATCH},
                "optimizer": {"learning_rate": None, "max_grad_norm": 0}, "schedule": {"type": "constant", "warmup": 0}}
        return support.write_config(self.folder / f"{name}.json", "encoder", "train.csv", **support.merged(base, changes))


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    return Script(tmp_path_factory.mktemp("pth"))


def adam(net, **settings):
    return torch.optim.Adam(net.parameters(), **{"lr": 2e-3, **settings})


def save(script, name, make_optimizer=adam, net=None, steps=2 * STEPS_PER_EPOCH, edit=None):
    """Trains, saves as the script does, and goes on in Python: the file and the next ten losses."""
    net = net or script.net()
    optimizer = make_optimizer(net)
    script.train(net, optimizer, 0, steps)
    content = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 2}
    path = script.folder / f"{name}.pth"
    torch.save(edit(content) if edit else content, path)
    return path, script.train(net, optimizer, steps, 10)


def losses(run):
    return [event["loss"] for event in run.events("train")]


def resume(script, name, path, *arguments, **changes):
    config = script.config(name, **changes)
    result = support.finetune("--config", config, "--resume", path, *arguments)
    return support.Run(script.folder / name), result.stderr


def test_goes_on_from_a_script_and_back(script):
    """The case that started it: `net`, `optimizer`, `epoch` of a script with names of its own."""
    path, expected = save(script, "model_checkpoint0")
    run, said = resume(script, "resumed", path)
    assert losses(run) == pytest.approx(expected, abs=1e-5)
    assert [event["epoch"] for event in run.events("epoch")] == [3, 4]
    assert run.events("train")[0]["epoch"] == pytest.approx(2.2)
    assert [event["step"] for event in run.events("train")] == list(range(1, 11))
    assert run.events("start")[0]["first_epoch"] == 2 and run.summary()["epochs"] == 4
    for words in ("optimizer.type is adam as", "optimizer.learning_rate is 0.002 as", "after 2 epochs"):
        assert words in said

    # What we saved goes on in Python as it goes on here.
    support.finetune("convert", script.folder / "resumed", script.folder / "back.pth")
    config = script.config("resumed", train={"epochs": 3})
    support.finetune("--config", config, "--resume", "auto", "--quiet")
    ours = losses(run)[-5:]
    content = torch.load(script.folder / "back.pth", weights_only=True)
    assert list(content) == ["net", "optimizer", "epoch"] and content["epoch"] == 4
    net = script.net(seed=9)
    optimizer = adam(net, lr=1)
    net.load_state_dict(content["net"])
    optimizer.load_state_dict(content["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.002
    assert script.train(net, optimizer, 20, 5) == pytest.approx(ours, abs=1e-6)


def test_without_resume_epochs_begin_at_0(script):
    save(script, "unused")
    support.finetune("--config", script.config("fresh"), "--quiet")
    run = support.Run(script.folder / "fresh")
    assert run.events("train")[0]["epoch"] == pytest.approx(0.2) and run.summary()["epochs"] == 2


def test_foreign_names_are_suggested_from_shapes(script):
    path, _ = save(script, "foreign")
    config = script.config("nameless", model={"rename": []})
    support.refused(4, "--config", config, "--resume", path, says=[
        "foreign.pth", "encoder.embeddings.word_embeddings.weight",
        '"rename": [["^encoder[.]","bert."],["^fc[.]","classifier."]]'])
    config = script.config("half-named", model={"rename": RENAME[:1]})
    support.refused(4, "--config", config, "--resume", path, says=[
        "lacks parameters of the model", "fc.weight", "classifier.weight", '["^fc[.]","classifier."]'])


def hf_groups(net, **settings):
    def plain(name):
        return name.endswith("bias") or "LayerNorm" in name
    named = list(net.named_parameters())
    return torch.optim.AdamW([{"params": [p for n, p in named if not plain(n)], "weight_decay": 0.1},
                              {"params": [p for n, p in named if plain(n)], "weight_decay": 0.0}],
                             **{"lr": 2e-3, **settings})


def wrapped(content):
    content["net"] = {f"module._orig_mod.{name}": value for name, value in content["net"].items()}
    return content


FORMS = {
    "adamw": lambda net: torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.1),
    "two groups": hf_groups,
    "two groups with betas and eps": lambda net: hf_groups(net, betas=(0.7, 0.8), eps=1e-6),
    "names": lambda net: torch.optim.AdamW(reversed(list(net.named_parameters())), lr=2e-3, weight_decay=0.1),
    "amsgrad": lambda net: adam(net, amsgrad=True, betas=(0.5, 0.6)),
    "amsgrad of adamw": lambda net: hf_groups(net, amsgrad=True, betas=(0.5, 0.6)),
    "head first": lambda net: torch.optim.Adam([*net.fc.parameters(), *net.encoder.parameters()], lr=2e-3),
    "head apart": lambda net: torch.optim.Adam([{"params": net.encoder.parameters()},
                                                {"params": net.fc.parameters()}], lr=2e-3),
    "capturable": lambda net: adam(net, lr=torch.tensor(2e-3)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_adam(script, form):
    name = form.replace(" ", "-")
    path, expected = save(script, name, FORMS[form])
    run, _ = resume(script, f"run-{name}", path)
    assert losses(run) == pytest.approx(expected, abs=1e-5)


def test_wrappers_and_a_scheduler(script):
    def scheduled(net):
        optimizer = adam(net)
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        return optimizer
    path, expected = save(script, "wrapped", scheduled, edit=wrapped)
    run, _ = resume(script, "run-wrapped", path)
    assert losses(run) == pytest.approx(expected, abs=1e-5)


def test_settings_of_the_config_win(script):
    path, _ = save(script, "settings", hf_groups)
    run, said = resume(script, "run-settings", path, "--set", "optimizer.learning_rate=1e-4",
                       "--set", "optimizer.weight_decay=0.2", train={"max_steps": 1})
    used = json.loads((run.path / "config.json").read_text())["optimizer"]
    assert used["learning_rate"] == 1e-4 and used["weight_decay"] == 0.2 and used["type"] == "adamw"
    assert "optimizer.learning_rate is 0.0001 as the config says; settings.pth has 0.002" in said
    assert "optimizer.weight_decay is 0.2 as the config says; settings.pth has 0.1" in said


def test_a_stopped_run_keeps_what_it_adopted(script):
    path, _ = save(script, "kept")
    whole, _ = resume(script, "whole", path)
    part, _ = resume(script, "part", path, train={"max_steps": 4})
    support.finetune("--config", script.config("part"), "--resume", "auto", "--quiet")
    assert part.summary()["weights_sha256"] == whole.summary()["weights_sha256"]
    assert part.summary()["epochs"] == 4 and losses(part) == losses(whole)


def test_weights_alone(script):
    path = script.folder / "bare.pth"
    net = script.net()
    torch.save(net.state_dict(), path)
    run, said = resume(script, "run-bare", path, optimizer={"type": "adam", "learning_rate": 2e-3})
    assert "holds no optimizer state" in said and run.events("start")[0]["first_epoch"] == 0
    assert losses(run) == pytest.approx(script.train(net, adam(net), 0, 10), abs=1e-5)




def with_epoch(epoch):
    def edit(content):
        content["epoch"] = epoch
        return content
    return edit


def other_names(content):
    content["optimizer"]["param_groups"][0]["param_names"][0] = "encoder.other"
    return content


def too_few_names(content):
    content["optimizer"]["param_groups"][0]["param_names"].pop()
    return content


def named_adam(net):
    return torch.optim.Adam(net.named_parameters(), lr=2e-3)


REFUSED = {
    "sgd": (lambda net: torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9), None, 4,
            ["is not Adam's", "momentum_buffer"]),
    "maximize": (lambda net: adam(net, maximize=True), None, 4, ["maximizes"]),
    "some parameters": (lambda net: torch.optim.Adam([p for n, p in net.named_parameters() if "query" in n]), None, 4,
                        ["in more than one way", "named_parameters()"]),
    "another order": (lambda net: torch.optim.Adam(sorted(net.parameters(), key=torch.numel), lr=2e-3), None, 4,
                      ["no order of the parameters", "named_parameters()"]),
    "too many": (adam, lambda content: content | {"net": dict(list(content["net"].items())[:-1])}, 4,
                 ["is of 25 parameters, the state dict beside it has 24"]),
    "two rates": (lambda net: torch.optim.Adam([{"params": net.encoder.parameters(), "lr": 1e-3},
                                                {"params": net.fc.parameters(), "lr": 1e-2}]), None, 2,
                  ["different values of learning_rate", "set optimizer.learning_rate"]),
    "two decays": (lambda net: torch.optim.AdamW([{"params": net.encoder.parameters(), "weight_decay": 0.1},
                                                  {"params": net.fc.parameters(), "weight_decay": 0.2}]), None, 2,
                   ["set optimizer.weight_decay"]),
    "odd decay": (lambda net: torch.optim.AdamW([{"params": net.encoder.parameters(), "weight_decay": 0.1},
                                                 {"params": net.fc.parameters(), "weight_decay": 0.0}]), None, 2,
                  ["no usual rule", "set optimizer.no_decay"]),
    "epoch": (adam, with_epoch(-1), 4, ["'epoch' is no count"]),
    "no groups": (adam, lambda content: content | {"optimizer": {"a": 1}}, 4, ["no state dict of a torch optimizer"]),
    "names of another model": (named_adam, other_names, 4, ["param_names has 'encoder.other'"]),
    "too few names": (named_adam, too_few_names, 4, ["has 25 parameters but 24 param_names"]),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_gone_on_from_is_refused(script, reason):
    make_optimizer, edit, code, says = REFUSED[reason]
    name = "refused-" + reason.replace(" ", "-")
    path, _ = save(script, name, make_optimizer, steps=1, edit=edit)
    support.refused(code, "--config", script.config(name), "--resume", path, says=[path.name, *says])


def test_only_the_head_was_trained(script):
    """Moments of two parameters whose shapes tell which they are."""
    path, _ = save(script, "head", lambda net: torch.optim.Adam(net.fc.parameters(), lr=2e-3))
    run, _ = resume(script, "run-head", path, train={"max_steps": 1})
    state = load_file(run.checkpoints()[0] / "optimizer.safetensors")
    saved = torch.load(path, weights_only=True)["optimizer"]["state"]
    assert torch.equal(state["exp_avg/classifier.weight"], saved[0]["exp_avg"])
    assert state["step/classifier.bias"] == 10 and state["step/bert.pooler.dense.bias"] == 0


# Case 25 of the public reports.


@pytest.fixture(scope="module")
def case():
    return json.loads((CASE / "expected.json").read_text())


SAID = {
    "moments-bf16": ["low precision"],
    "state-empty": ["saved before its first step"],
    "one-parameter-without-state": ["without moments", "classifier.weight"],
    "other-group-keys-and-lr": ["optimizer.learning_rate is 0.005 as the config says", "has 5e-05",
                                "at the learning rate 0.007 of a schedule from 5e-05"],
}


@pytest.mark.parametrize("variant", json.loads((CASE / "expected.json").read_text())["variants"])
def test_case_25(tmp_path, case, variant):
    settings, expected = case["settings"], case["variants"][variant]
    config = support.write_config(
        tmp_path / "config.json", CASE / "model", CASE / "train.csv", data={"shuffle": False, "max_length": 16},
        model={"dropout": 0, "attention_dropout": 0, "classifier_dropout": 0},
        train={"batch_size": 4, "epochs": 4}, schedule={"type": "constant", "warmup": 0},
        optimizer={"learning_rate": settings["lr"], "weight_decay": settings["weight_decay"],
                   "betas": settings["betas"], "eps": settings["eps"], "max_grad_norm": 0})
    arguments = ["--config", config, "--resume", CASE / f"{variant}.pth"]
    if "refuse" in expected:
        support.refused(4, *arguments, says=[f"{variant}.pth", "shape"])
        return
    said = support.finetune(*arguments).stderr
    assert losses(support.Run(tmp_path / "run")) == pytest.approx(expected["next_losses"], abs=case["tolerance"])
    for words in SAID.get(variant, []):
        assert words in said


# Conversions.


def test_a_fresh_run_as_a_pth_of_hugging_faces_class(script):
    """Two groups, Hugging Face's names, a schedule that is under way."""
    config = script.config("own", model={"rename": []}, optimizer={"learning_rate": 2e-3, "weight_decay": 0.1},
                           schedule={"type": "linear", "warmup": 0}, train={"max_steps": 7, "epochs": 4})
    support.finetune("--config", config, "--quiet")
    run = support.Run(script.folder / "own")
    support.finetune("convert", run.path / "checkpoints" / "latest", script.folder / "own.pth")
    content = torch.load(script.folder / "own.pth", weights_only=True)
    assert content["epoch"] == 1
    settings = BertConfig(**{**script.settings.to_dict(), "num_labels": len(LABELS)})
    model = BertForSequenceClassification(settings)
    model.load_state_dict(content["net"])
    optimizer = torch.optim.AdamW(reference.decay_groups(model, 0.1), lr=1)
    optimizer.load_state_dict(content["optimizer"])
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0]
    assert optimizer.param_groups[0]["lr"] == 0 and optimizer.param_groups[0]["initial_lr"] == 2e-3
    state = load_file(run.checkpoints()[-1] / "optimizer.safetensors")
    for name, parameter in model.named_parameters():
        assert torch.equal(optimizer.state[parameter]["exp_avg"], state[f"exp_avg/{name}"]), name
        assert optimizer.state[parameter]["step"] == 7
    support.finetune("convert", run.path, script.folder / "as-directory")
    directory = reference.load_classifier(script.folder / "as-directory")
    for name, value in directory.state_dict().items():
        assert torch.equal(value, content["net"][name])
    assert directory.config.id2label == dict(enumerate(LABELS))


def test_frozen_parameters_and_groups_as_a_pth(script):
    """A group for each rate and weight decay; what is frozen is in none, as a script's optimizer has it."""
    config = script.config("frozen", model={"rename": [], "freeze": ["[.]embeddings[.]"]}, train={"max_steps": 5, "epochs": 4},
                           optimizer={"learning_rate": 2e-3, "weight_decay": 0.1,
                                      "groups": [{"patterns": ["^classifier"], "learning_rate": 1e-2, "weight_decay": 0}]})
    support.finetune("--config", config, "--quiet")
    run = support.Run(script.folder / "frozen")
    support.finetune("convert", run.path, script.folder / "frozen.pth")
    content = torch.load(script.folder / "frozen.pth", weights_only=True)
    model = BertForSequenceClassification(BertConfig(**{**script.settings.to_dict(), "num_labels": len(LABELS)}))
    model.load_state_dict(content["net"])
    learning = {name: value for name, value in model.named_parameters() if ".embeddings." not in name}
    kinds = {name: 2 if name.startswith("classifier") else int(name.endswith(("bias", "LayerNorm.weight"))) for name in learning}
    optimizer = torch.optim.AdamW([{"params": [learning[n] for n in learning if kinds[n] == kind]} for kind in range(3)], lr=1)
    optimizer.load_state_dict(content["optimizer"])
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0, 0]
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([2e-3, 2e-3, 1e-2])
    state = load_file(run.checkpoints()[-1] / "optimizer.safetensors")
    for name, parameter in learning.items():
        assert torch.equal(optimizer.state[parameter]["exp_avg"], state[f"exp_avg/{name}"]), name
    # And back: the run goes on from it.
    support.finetune("--config", config, "--resume", script.folder / "frozen.pth", "--output-dir", script.folder / "frozen-on",
                     "--set", 'optimizer.no_decay=["bias", "LayerNorm.weight"]', "--quiet")
    assert support.Run(script.folder / "frozen-on").summary()["status"] == "completed"


def test_adapters_are_no_pth(script):
    config = script.config("adapted", model={"rename": [], "lora": {"rank": 2}}, train={"max_steps": 2, "epochs": 1})
    support.finetune("--config", config, "--quiet")
    result = support.finetune("convert", script.folder / "adapted", script.folder / "adapted.pth", code=4)
    assert "model.lora" in result.stderr and "model/" in result.stderr and "adapter/" in result.stderr


def test_one_container_into_another(script):
    path, _ = save(script, "container", steps=1)
    weights = torch.load(path, weights_only=True)["net"]
    steps = ["container.pth", "copy.pth", "a.safetensors", "b.bin", "c.pt", "d", "e.safetensors"]
    for source, target in zip(steps, steps[1:]):
        model = ["--model", script.folder / "encoder"] if target == "d" else []
        support.finetune("convert", script.folder / source, script.folder / target, *model)
    copy = torch.load(script.folder / "copy.pth", weights_only=True)
    assert copy["epoch"] == 2 and torch.equal(copy["optimizer"]["state"][0]["exp_avg"],
                                              torch.load(path)["optimizer"]["state"][0]["exp_avg"])
    last = load_file(script.folder / "e.safetensors")
    for found in (copy["net"], last, torch.load(script.folder / "c.pt", weights_only=True)):
        assert set(found) == set(weights) and all(torch.equal(found[name], weights[name]) for name in weights)
    assert (script.folder / "d" / "vocab.txt").exists() and (script.folder / "d" / "config.json").exists()


def test_conversions_that_are_refused(script):
    path, _ = save(script, "source", steps=1)
    folder = script.folder
    support.refused(4, "convert", folder / "none.pth", folder / "x.bin", says=["none.pth does not exist"])
    support.refused(2, "convert", path, folder / "directory", says=["directory is to be", "--model"])
    support.refused(2, "convert", path, folder / "train.csv", says=["train.csv exists already", "--overwrite"])
    support.refused(4, "convert", folder / "train.csv", folder / "x.bin", says=["train.csv: no file of torch.save"])
    support.finetune("convert", path, folder / "twice.bin")
    support.finetune("convert", path, folder / "twice.bin", "--overwrite")
    support.refused(4, "convert", path, "/dev/full/x.bin", says=["cannot write /dev/full/x.bin"])
