"""Ids, tokens, offsets and word ids of `finetune tokenize` against transformers' fast tokenizer: awkward Unicode, real texts."""

import csv
import os
import pathlib
import random
import subprocess
import sys
import unicodedata

import pytest
import support
from transformers import AutoTokenizer

NUM_STRINGS = 20_000
SEED = 20260131
SHARED_DATA = os.environ.get("FINETUNE_SHARED_DATA", "")
TEST_MODEL = os.environ.get("FINETUNE_TEST_MODEL", "")

ADDED_TOKENS = {
    "<single>": {"single_word": True, "normalized": False},
    "<left>": {"lstrip": True, "normalized": False},
    "<right>": {"rstrip": True, "normalized": False, "special": True},
    "Foo Bar": {"normalized": True},
    "Ça": {"normalized": True, "single_word": True},
}

# name: (settings of tokenizer_config.json, tokens to add)
SETTINGS = {
    "uncased": ({"do_lower_case": True}, {}),
    "cased": ({"do_lower_case": False}, {}),
    "lower with accents": ({"do_lower_case": True, "strip_accents": False}, {}),
    "no Chinese split": ({"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}, {}),
    "added tokens": ({"do_lower_case": True, "additional_special_tokens": ["<extra>"]}, ADDED_TOKENS),
}

AWKWARD = [
    "[SEP]", "[CLS]", "[MASK]", "[sep]", "[UNK]x", "##", "\u00ad", "\ufeff", "\u200d", "\u200b", "\ufffd", "\x00", "\x85",
    "\r", "\t", "\u3000", "\u2028", "\u00a0", "e\u0301\u0302\u0327", "\u0344", "\u0345\u0301", "\u302e\u302f", "か\u3099",
    "\U0001d165\U0001d16d", "\u09c7\u09be", "İ", "ß", "ΌΣΟΣ", "ﬁ", "ǅ", "창", "가\u11a8", "中国", "豈", "\U0002f800",
    "👩\u200d👩\u200d👧\u200d👦", "🇩🇪", "👍🏽", "a" * 99, "a" * 100, "a" * 101, "é" * 100, "창" * 34, "x" * 400, "\u2126",
    *ADDED_TOKENS, "<extra>", "foo bar", "ça",
]


def assigned_blocks():
    """Runs of 128 code points of which one at least is assigned."""
    blocks = []
    for first in range(0, 0x110000, 128):
        if any(unicodedata.category(chr(c)) not in ("Cn", "Cs") for c in range(first, first + 128)):
            blocks.append(first)
    return blocks


def awkward_strings(count, seed):
    """Strings over every assigned block, with marks, controls, emoji sequences, long words and special tokens."""
    draw = random.Random(seed)
    blocks = assigned_blocks()
    marks = [c for c in range(0x110000) if unicodedata.combining(chr(c))]
    strings = []
    for number in range(count):
        block = blocks[number % len(blocks)]
        parts = []
        for _ in range(draw.choice((0, 1, 2, 4, 8, 16, 32))):
            kind = draw.random()
            if kind < 0.35:
                parts.append(chr(draw.randrange(block, block + 128)))
            elif kind < 0.6:
                parts.append(chr(draw.randrange(32, 127)))
            elif kind < 0.7:
                parts.append(chr(draw.choice(marks)))
            elif kind < 0.8:
                parts.append(draw.choice(AWKWARD))
            elif kind < 0.9:
                parts.append(" ")
            else:
                parts.append(chr(draw.choice((draw.randrange(0x80, 0x3000), draw.randrange(0x110000)))))
        text = "".join(part for part in parts if not any(0xD800 <= ord(c) <= 0xDFFF for c in part))
        strings.append(text.replace("\n", " "))
    return strings


def make_vocabulary(seed):
    """Characters of many scripts and their continuations, and words of the letters a to e."""
    draw = random.Random(seed)
    characters = [chr(c) for c in range(33, 127)]
    characters += [chr(c) for c in draw.sample(range(0xA1, 0x3000), 3000)]
    characters += [chr(c) for c in draw.sample(range(0x3000, 0xD800), 3000)] + list("中国창の가창👍👩")
    characters += [chr(c) for c in draw.sample(range(0x10000, 0x1FB00), 1500)]
    words = ["".join(draw.choice("abcdeé") for _ in range(draw.randint(2, 6))) for _ in range(3000)]
    pieces = [piece for text in [*characters, *words, "Foo", "foo"] for piece in (text, "##" + text)]
    kept = [piece for piece in pieces if not any(c.isspace() or unicodedata.category(c) == "Cc" for c in piece)]
    return list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *kept]))


@pytest.fixture(scope="session")
def own_vocabulary():
    return make_vocabulary(SEED)


@pytest.fixture
def make_model(tmp_path, own_vocabulary):
    def make(settings, added):
        directory = tmp_path / "model"
        directory.mkdir()
        (directory / "vocab.txt").write_text("\n".join(own_vocabulary) + "\n", encoding="utf-8")
        decoder = {str(len(own_vocabulary) + i): {"content": content, **properties}
                   for i, (content, properties) in enumerate(added.items())}
        config = {"tokenizer_class": "BertTokenizer", **settings}
        if decoder:
            config["added_tokens_decoder"] = decoder
        support.write_json(directory / "tokenizer_config.json", config)
        support.write_json(directory / "config.json", {"model_type": "bert"})
        return directory

    return make


def program_says(model, lines, *flags, tmp_path):
    source = tmp_path / "lines.txt"
    source.write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))
    return support.finetune("tokenize", "--model", model, "--input", source, *flags).lines()


def reference_says(tokenizer, texts, pairs=None):
    # For a token that is looked for in normalised text, the reference shows its normalised form; ours shows the token.
    added = {number: token.content for number, token in tokenizer.added_tokens_decoder.items()}
    encoded = tokenizer(texts, pairs, return_token_type_ids=True)
    return [
        {
            "input_ids": row.ids,
            "token_type_ids": row.type_ids,
            "tokens": [added.get(i) or tokenizer.convert_ids_to_tokens(i) for i in row.ids],
            "offsets": [list(span) for span in row.offsets],
            "word_ids": row.word_ids,
        }
        for row in encoded.encodings
    ]


def assert_same(texts, program, reference):
    assert len(program) == len(reference)
    different = [(text, ours, theirs) for text, ours, theirs in zip(texts, program, reference) if ours != theirs]
    assert not different, f"{len(different)} of {len(texts)} differ, first {different[0]}"


def compare(model, texts, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(str(model))
    assert_same(texts, program_says(model, texts, tmp_path=tmp_path), reference_says(tokenizer, texts))


def compare_pairs(model, texts, tmp_path):
    texts = [text.replace("\t", " ") for text in texts]
    first, second = texts[::2], texts[1::2]
    lines = [f"{a}\t{b}" for a, b in zip(first, second)]
    tokenizer = AutoTokenizer.from_pretrained(str(model))
    assert_same(lines, program_says(model, lines, "--pair", tmp_path=tmp_path), reference_says(tokenizer, first, second))


def shared_texts(root):
    """Every line and every CSV field of the data folder."""
    texts = []
    for path in sorted(pathlib.Path(root).rglob("*")):
        if not path.is_file():
            continue
        content = path.read_bytes().decode("utf-8")
        if path.suffix == ".csv":
            texts += [field for row in csv.reader(content.splitlines()) for field in row]
        texts += content.split("\n")
    return [text.replace("\n", " ") for text in dict.fromkeys(texts)]


def test_the_tables_are_the_references():
    script = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "generate_unicode_tables"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SETTINGS)
def test_awkward_unicode(name, make_model, tmp_path):
    compare(make_model(*SETTINGS[name]), awkward_strings(NUM_STRINGS, SEED), tmp_path)


@pytest.mark.parametrize("name", ["uncased", "added tokens"])
def test_pairs_of_awkward_unicode(name, make_model, tmp_path):
    compare_pairs(make_model(*SETTINGS[name]), awkward_strings(NUM_STRINGS, SEED + 1), tmp_path)


@pytest.mark.parametrize("name", SETTINGS)
def test_transformers_saves_what_we_load(name, make_model, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(str(make_model(*SETTINGS[name])))
    tokenizer.save_pretrained(str(tmp_path / "saved"))
    support.write_json(tmp_path / "saved" / "config.json", {"model_type": "bert"})
    compare(tmp_path / "saved", awkward_strings(2000, SEED + 2), tmp_path)


@pytest.mark.skipif(not TEST_MODEL or not os.path.isdir(TEST_MODEL), reason="FINETUNE_TEST_MODEL names no directory")
def test_awkward_unicode_with_a_real_vocabulary(tmp_path):
    texts = awkward_strings(NUM_STRINGS, SEED + 3)
    compare(TEST_MODEL, texts, tmp_path)
    compare_pairs(TEST_MODEL, texts[:4000], tmp_path)


@pytest.mark.skipif(not SHARED_DATA or not os.path.isdir(SHARED_DATA), reason="FINETUNE_SHARED_DATA names no directory")
def test_real_texts(make_model, tmp_path):
    texts = shared_texts(SHARED_DATA)
    assert len(texts) > 1000
    real = TEST_MODEL and os.path.isdir(TEST_MODEL)
    compare(TEST_MODEL if real else make_model(*SETTINGS["uncased"]), texts, tmp_path)
