"""The job of configs/resume-pth.json: Chinese questions with columns, seven classes a column, begun by a script in Python."""

import json
import random

import pytest
import reference
import support
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

CONFIG = support.TEST_DATA.parents[1] / "configs" / "resume-pth.json"
NUM_CLASSES, IGNORED = 7, 10
BATCH, STEPS_PER_EPOCH = 4, 5
CHARACTERS = "你好世界天地人大中国上海北京查询年份价格数量城市名称最高多少哪个的是在有和"


class ColumnNet(torch.nn.Module):
    """The script's own class and names."""

    def __init__(self, settings):
        super().__init__()
        self.encoder = BertModel(settings)
        self.fc = torch.nn.Linear(settings.hidden_size, NUM_CLASSES)

    def forward(self, batch):
        return self.fc(self.encoder(**batch).last_hidden_state)  # [B, T, 7]


def make_encoder(folder):
    support.make_encoder(folder, hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    settings = json.loads((folder / "config.json").read_text())
    marks = [word for word in vocabulary if word.startswith("[")]
    words = [*marks, *dict.fromkeys(CHARACTERS), *(f"[unused{i}]" for i in range(1000))][:settings["vocab_size"]]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (folder / "tokenizer.json").unlink(missing_ok=True)
    return BertConfig(**{**{k: v for k, v in settings.items() if k not in ("architectures", "model_type")},
                         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})


def make_rows(count):
    """Questions of 3 to 12 characters with one to five columns; some labels count nothing."""
    draw = random.Random(0)

    def text(shortest, longest):
        return "".join(draw.choices(CHARACTERS, k=draw.randint(shortest, longest)))

    rows = []
    for _ in range(count):
        columns = [text(1, 5) for _ in range(draw.randint(1, 5))]
        labels = [draw.choice([*range(NUM_CLASSES), IGNORED]) for _ in columns]
        rows.append({"question": text(3, 12), "columns": columns, "labels": [draw.randrange(NUM_CLASSES), *labels[1:]]})
    return rows


class Script:
    """Trains in Python: rows in file order, no dropout."""

    def __init__(self, folder):
        self.folder = folder
        self.settings = make_encoder(folder / "encoder")
        rows = make_rows(BATCH * STEPS_PER_EPOCH)
        self.data = folder / "train.jsonl"
        self.data.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(folder / "encoder")
        self.rows, self.labels = [], []
        for row in rows:
            ids, labels = list(tokenizer(row["question"])["input_ids"]), []
            labels = [IGNORED] * len(ids)
            for column, label in zip(row["columns"], row["labels"]):
                piece = tokenizer(column)["input_ids"]
                ids += piece
                labels += [label] + [IGNORED] * (len(piece) - 1)
            self.rows.append((ids, [0] * len(ids)))
            self.labels.append(labels)

    def net(self):
        torch.manual_seed(0)
        net = ColumnNet(self.settings).train()
        with torch.no_grad():
            for parameter in net.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.1)
        return net

    def train(self, net, optimizer, first_step, steps):
        criterion = torch.nn.CrossEntropyLoss(ignore_index=IGNORED)
        losses = []
        for step in range(first_step, first_step + steps):
            first = step % STEPS_PER_EPOCH * BATCH
            logits = net(reference.padded(self.rows[first:first + BATCH]))
            labels = torch.full(logits.shape[:2], IGNORED)
            for i, row in enumerate(self.labels[first:first + BATCH]):
                labels[i, :len(row)] = torch.tensor(row)
            loss = criterion(logits.flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    return Script(tmp_path_factory.mktemp("fields"))


def finetune(script, name, *arguments):
    """The config as it lies in configs/, on this data, without dropout and in file order."""
    changes = {"output_dir": script.folder / name, "model.path": script.folder / "encoder", "data.train": script.data,
               "data.max_length": 60, "data.shuffle": False, "model.dropout": 0, "model.attention_dropout": 0,
               "model.classifier_dropout": 0, "device": "cpu", "threads": 1}
    settings = [word for key, value in changes.items()
                for word in ("--set", f"{key}={value if isinstance(value, (int, str)) else str(value)}"
                             .replace("=False", "=false"))]
    result = support.finetune("--config", CONFIG, *settings, *arguments)
    return support.Run(script.folder / name), result.stderr


def losses(run):
    return [event["loss"] for event in run.events("train")]


@pytest.mark.parametrize("rate", [5e-6, 2e-3])
def test_the_next_ten_losses_are_pythons(script, rate):
    net = script.net()
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    before = script.train(net, optimizer, 0, STEPS_PER_EPOCH)
    path = script.folder / f"model_checkpoint{rate}.pth"
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}, path)
    expected = script.train(net, optimizer, STEPS_PER_EPOCH, 10)
    run, _ = finetune(script, f"resumed-{rate}", "--resume", path, "--set", f"optimizer.learning_rate={rate}")
    assert losses(run) == pytest.approx(expected, abs=1e-5)
    assert [event["epoch"] for event in run.events("epoch")] == [2, 3]
    assert run.summary()["epochs"] == 3
    if rate > 1e-3:
        assert abs(expected[-1] - before[0]) > 0.01, "training must move the loss"


def test_without_resume_it_begins_at_epoch_0(script):
    run, said = finetune(script, "fresh")
    assert "error" not in said
    assert run.events("train")[0]["epoch"] == pytest.approx(1 / STEPS_PER_EPOCH)
    assert [event["epoch"] for event in run.events("epoch")] == [1, 2]
    assert run.summary()["epochs"] == 2
