"""What the Python tests share: tiny models and data sets, the program itself, and the files that it writes."""

import csv
import json
import os
import pathlib
import random
import signal
import string
import subprocess
import time

import numpy as np
from safetensors.numpy import load_file, save_file

TEST_DATA = pathlib.Path(os.environ["FINETUNE_TEST_DATA"])
BINARY = os.environ["FINETUNE_BINARY"]

# Long enough for an overloaded machine; nothing waits for it to pass.
DEADLINE_SECONDS = 240

TOPICS = {
    "animals": "cat dog bird horse sheep tiger".split(),
    "colours": "red green blue yellow white black".split(),
    "places": "paris london house street river island".split(),
}
FILLERS = "the a an of in on is was not very we you they it this that and or with".split()


def vocabulary():
    """WordPiece tokens: single characters and their continuations, then whole words."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,!?'-"]
    characters = string.digits + string.ascii_lowercase
    tokens += [*characters, *("##" + c for c in characters)]
    words = [*FILLERS, *(word for words in TOPICS.values() for word in words)]
    return tokens + [word for word in words if word not in tokens]


def write_tokenizer(directory, **settings):
    directory = pathlib.Path(directory)
    (directory / "vocab.txt").write_text("\n".join(vocabulary()) + "\n", encoding="utf-8")
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **settings}
    write_json(directory / "tokenizer_config.json", config)


def bert_config(**changes):
    config = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": len(vocabulary()),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
        "initializer_range": 0.02,
        "pad_token_id": 0,
    }
    config.update(changes)
    return config


def bert_shapes(config):
    """Names and shapes of a BERT encoder's parameters under Hugging Face's names."""
    h, i = config["hidden_size"], config["intermediate_size"]
    shapes = {
        "bert.embeddings.word_embeddings.weight": (config["vocab_size"], h),
        "bert.embeddings.position_embeddings.weight": (config["max_position_embeddings"], h),
        "bert.embeddings.token_type_embeddings.weight": (config["type_vocab_size"], h),
    }

    def dense(name, rows, columns):
        shapes[name + ".weight"], shapes[name + ".bias"] = (rows, columns), (rows,)

    def norm(name):
        shapes[name + ".LayerNorm.weight"], shapes[name + ".LayerNorm.bias"] = (h,), (h,)

    norm("bert.embeddings")
    for number in range(config["num_hidden_layers"]):
        layer = f"bert.encoder.layer.{number}."
        for part in ("query", "key", "value"):
            dense(layer + "attention.self." + part, h, h)
        dense(layer + "attention.output.dense", h, h)
        norm(layer + "attention.output")
        dense(layer + "intermediate.dense", i, h)
        dense(layer + "output.dense", h, i)
        norm(layer + "output")
    dense("bert.pooler.dense", h, h)
    return shapes


def make_encoder(directory, seed=7, **changes):
    """A Hugging Face directory of a random BERT encoder, without a classifier."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True)
    config = bert_config(**changes)
    write_json(directory / "config.json", config)
    random_numbers = np.random.default_rng(seed)
    weights = {}
    for name, shape in bert_shapes(config).items():
        values = random_numbers.standard_normal(shape).astype(np.float32) * np.float32(0.1)
        weights[name] = values + 1 if name.endswith("LayerNorm.weight") else values
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(directory)
    return directory


def make_rows(count, seed, topics=tuple(TOPICS), longest=12):
    """(text, topic) rows of mixed lengths whose topic can be told from their words."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        topic = draw.choice(topics)
        words = [draw.choice(FILLERS) for _ in range(draw.randint(0, longest))]
        words.insert(draw.randint(0, len(words)), draw.choice(TOPICS[topic]))
        rows.append((" ".join(words), topic))
    return rows


def write_csv(path, rows, columns=("text", "label"), delimiter=","):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def write_jsonl(path, rows, columns=("text", "label")):
    lines = [json.dumps(dict(zip(columns, row)), ensure_ascii=False) for row in rows]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def write_json(path, value):
    pathlib.Path(path).write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def read_jsonl(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def merged(base, changes):
    """`base` with the sections of `changes` laid over it."""
    result = dict(base)
    for key, value in changes.items():
        result[key] = merged(result.get(key, {}), value) if isinstance(value, dict) else value
    return result


def write_config(path, model_path, train_file, **changes):
    """A run config: CPU, everything small and quick."""
    config = {
        "output_dir": "run",
        "device": "cpu",
        "threads": 1,
        "model": {"path": str(model_path)},
        "data": {"train": str(train_file), "max_length": 64},
        "train": {"epochs": 2, "batch_size": 8, "log_every": 1},
        "optimizer": {"learning_rate": 1e-3},
        "schedule": {"warmup": 0.1},
    }
    return write_json(path, merged(config, changes))


class Result:
    """How a call of the program ended."""

    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def lines(self):
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def environment(**changes):
    """The environment of the program; no GPU of the machine is seen by it."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1", **changes}


def finetune(*arguments, stdin="", code=0, **options):
    """Runs the program and checks its exit code. stdin: text, or bytes."""
    stdin = stdin.encode("utf-8") if isinstance(stdin, str) else stdin
    options.setdefault("env", environment())
    done = subprocess.run([BINARY, *map(str, arguments)], input=stdin, capture_output=True,
                          timeout=DEADLINE_SECONDS, **options)
    result = Result(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace"))
    assert result.code == code, f"{arguments}: expected exit code {code}\n{result}"
    return result


def refused(code, *arguments, says, **options):
    """Runs the program, which must fail with `code`, say each of `says`, and show no stack trace."""
    result = finetune(*arguments, code=code, **options)
    for words in [says] if isinstance(says, str) else says:
        assert words in result.stderr, f"expected {words!r} in\n{result}"
    for trace in ("terminate called", "Exception raised from", "frame #", "internal error"):
        assert trace not in result.stderr, result
    return result


class Run:
    """A run folder."""

    def __init__(self, directory):
        self.path = pathlib.Path(directory)

    def events(self, kind=None):
        return [e for e in read_jsonl(self.path / "metrics.jsonl") if kind in (None, e["event"])]

    def summary(self):
        return json.loads((self.path / "summary.json").read_text())

    def checkpoints(self):
        return sorted((self.path / "checkpoints").glob("step-" + 8 * "[0-9]"))

    def weights(self):
        """The last weights, from the newest checkpoint."""
        return load_file(self.checkpoints()[-1] / "model.safetensors")

    def comparable_log(self):
        """The log without what an undisturbed run may have otherwise: times, rates, memory, saves and resumes."""
        varying = {"time", "seconds", "tokens_per_second", "samples_per_second", "data_wait_fraction",
                   "flops_fraction", "utilization", "power_w"}
        return [{key: value for key, value in event.items() if key not in varying and "memory" not in key}
                for event in self.events() if event["event"] not in ("save", "resume")]


class Training:
    """A training process that is watched by its log, and disturbed."""

    def __init__(self, directory, *arguments):
        self.run = Run(directory)
        self.process = subprocess.Popen([BINARY, *map(str, arguments)], env=environment(), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_for(self, condition):
        """Returns when `condition()` holds, or the process has ended."""
        end = time.monotonic() + DEADLINE_SECONDS
        while self.process.poll() is None and not condition():
            assert time.monotonic() < end, "nothing happened for too long"
            time.sleep(0.001)

    def wait_for_log(self, text):
        """Returns when the log holds `text`, or the process has ended."""
        log = self.run.path / "metrics.jsonl"
        self.wait_for(lambda: log.exists() and text in log.read_text(errors="replace"))

    def wait_for_step(self, step):
        self.wait_for_log(f'"event":"train","step":{step},')

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        stdout, stderr = self.process.communicate(timeout=DEADLINE_SECONDS)
        return Result(self.process.returncode, stdout.decode(), stderr.decode("utf-8", "replace"))

    def stop(self, number=signal.SIGTERM):
        self.send(number)
        return self.end()
