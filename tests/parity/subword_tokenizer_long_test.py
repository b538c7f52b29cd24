"""Ten million strings over all tokenizers together; FINETUNE_LONG_STRINGS sets another number."""

import os

import pytest
import subword_models
from subword_tokenizer_test import strings
from tokenizer_test import compare

ALL = {**subword_models.OWN, **(subword_models.REAL if subword_models.SHARED and subword_models.SHARED.is_dir() else {})}
NUM_STRINGS = int(os.environ.get("FINETUNE_LONG_STRINGS", "10000000")) // len(ALL)
CHUNK = 20_000


@pytest.mark.parametrize("name", ALL)
def test_many_strings(name, tmp_path):
    directory = ALL[name](tmp_path)
    for seed, begin in enumerate(range(0, NUM_STRINGS, CHUNK)):
        compare(directory, strings(min(CHUNK, NUM_STRINGS - begin), 1000 + seed), tmp_path)
