"""Ids, tokens, offsets and word ids of byte-level BPE, SentencePiece and component tokenizers against transformers' fast tokenizers."""

import os
import random
import shutil

import pytest
import subword_models
from tokenizer_test import awkward_strings, compare, compare_pairs, shared_texts
from transformers import AutoTokenizer

SEED = 20260202
NUM_STRINGS = 700  # for each of the tokenizers, which are more than two dozen
NUM_PAIRS = 100
needs_shared = pytest.mark.skipif(not subword_models.SHARED or not subword_models.SHARED.is_dir(),
                                  reason="FINETUNE_SHARED_DATA has no folder of tokenizers beside it")

# What the components treat differently.
AWKWARD = ["'s", "'ll", "''", "``", "  ", "   ", "\t", "\u2581", "\u2581\u2581", " \u2581", "<s>", "</s>", "<mask>", " <mask> ", "[MASK]",
           "<extra_id_0>", "<eop>", "<unk>", "NEW Word", "<u>", "a.b", "½", "ﬁ", "ﬁ\u0301", "①", "㍿", "\ufdfa", "ｶﾞ", "\u1100\u1161\u11a8", "각\u0301",
           "©\u200d©\u0301", "\u0915\u094d\u0915\u0301", "\u0958", "\u0600a", "\r\n", "\r", "\u200d", "\ufeff", "x" * 300, "漢字" * 40, "1234567", "²", "Ⅷ", "_a_"]


def strings(count, seed):
    draw = random.Random(seed)
    sentences = subword_models.corpus()
    texts = awkward_strings(count, seed)
    for i in range(0, count, 2):
        cut = draw.randint(0, len(texts[i]))
        texts[i] = texts[i][:cut] + draw.choice(AWKWARD) + texts[i][cut:]
    for i in range(0, count, 5):
        texts[i] = draw.choice(["", " ", texts[i]]) + draw.choice(sentences) + draw.choice(["", " ", "  ", draw.choice(AWKWARD)])
    # A carriage return at the end would be the line's.
    return [text.replace("\n", " ").removesuffix("\r") for text in texts]


def check(directory, tmp_path, seed):
    compare(directory, strings(NUM_STRINGS, seed), tmp_path)
    compare_pairs(directory, strings(NUM_PAIRS, seed + 1), tmp_path)


@pytest.mark.parametrize("name", subword_models.OWN)
def test_trained_here(name, tmp_path):
    check(subword_models.OWN[name](tmp_path), tmp_path, SEED)


@needs_shared
@pytest.mark.parametrize("name", subword_models.REAL)
def test_real_files(name, tmp_path):
    check(subword_models.REAL[name](tmp_path), tmp_path, SEED + 2)


@pytest.mark.parametrize("name", ["roberta with prefix", "deberta", "xlm-roberta", "t5", "xlnet", "camembert", "deberta-v2", "albert"])
def test_transformers_saves_what_we_load(name, tmp_path):
    directory = subword_models.OWN[name](tmp_path)
    saved = tmp_path / "saved"
    AutoTokenizer.from_pretrained(str(directory)).save_pretrained(str(saved))
    shutil.copy(directory / "config.json", saved)
    compare(saved, strings(500, SEED + 3), tmp_path)


@needs_shared
@pytest.mark.parametrize("name", ["real roberta", "real t5", "real xlnet", "test_model as xlm-roberta"])
def test_real_texts(name, tmp_path):
    texts = [text.removesuffix("\r") for text in shared_texts(os.environ["FINETUNE_SHARED_DATA"])[::60]]
    compare(subword_models.REAL[name](tmp_path), texts, tmp_path)
