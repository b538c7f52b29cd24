"""Model directories with byte-level BPE, SentencePiece and other tokenizers of components: trained here, or of the shared folder."""

import functools
import json
import os
import pathlib
import random
import shutil

import sentencepiece
import support
from tokenizers import (AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors,
                        trainers)

SHARED_DATA = os.environ.get("FINETUNE_SHARED_DATA", "")
SHARED = pathlib.Path(SHARED_DATA).parent / "tokenizers" if SHARED_DATA else None
SEED = 20260201
ROBERTA_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT_TOKENS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]


@functools.cache
def corpus():
    """Sentences of made-up words of several scripts, with punctuation, numbers and symbols."""
    draw = random.Random(SEED)
    alphabets = ["abcdefghijklmnoprstuvwy", "abcdeéèàçùôïœ", "абвгдежиклмнопрст", "αβγδεζηικλμνο", "あいうえおかきくけこ漢字語学", "가나다라마바사",
                 "कखगघनपमर", "אבגדהו"]
    words = ["".join(draw.choice(alphabet) for _ in range(draw.randint(1, 8))) for alphabet in alphabets
             for _ in range(150)]
    words += ["don't", "they'll", "12", "2026", "3.14", "…", "«x»", "😀", "👩‍🔬", "ﬁn", "½"]
    weights = [1 / (1 + i % 150) for i in range(len(words))]
    sentences = []
    for _ in range(3000):
        picked = draw.choices(words, weights, k=draw.randint(1, 14))
        sentences.append(" ".join(picked) + draw.choice([".", "!", "?", "", ",", " ..."]))
    return sentences


def settings(directory, model_type, **config):
    support.write_json(directory / "config.json", {"model_type": model_type})
    if config:
        support.write_json(directory / "tokenizer_config.json", config)


def new_directory(root, name):
    directory = pathlib.Path(root) / name
    directory.mkdir()
    return directory


def train_byte_level(special_tokens, size=1200):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=size, special_tokens=special_tokens, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def byte_level_files(directory, special_tokens):
    train_byte_level(special_tokens).model.save(str(directory))


def roberta(root, **config):
    directory = new_directory(root, "roberta")
    byte_level_files(directory, ROBERTA_TOKENS)
    settings(directory, "roberta", **config)
    return directory


def roberta_with_prefix(root):
    return roberta(root, tokenizer_class="RobertaTokenizer", add_prefix_space=True, added_tokens_decoder={
        "4": {"content": "<mask>", "lstrip": True, "normalized": False, "special": True},
        "1300": {"content": "NEW Word", "normalized": True, "single_word": True}})


def gpt2(root):
    directory = new_directory(root, "gpt2")
    byte_level_files(directory, ["<|endoftext|>"])
    settings(directory, "gpt2")
    return directory


def gpt2_with_ends(root):
    directory = gpt2(root)
    settings(directory, "gpt2", add_bos_token=True, add_eos_token=True, eos_token="<|end|>")
    return directory


def deberta(root):
    directory = new_directory(root, "deberta")
    byte_level_files(directory, BERT_TOKENS)
    settings(directory, "deberta")
    return directory


def modernbert(root):
    directory = new_directory(root, "modernbert")
    tokenizer = train_byte_level(BERT_TOKENS)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("  ", normalized=True), AddedToken("[unused0]", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    tokenizer.save(str(directory / "tokenizer.json"))
    settings(directory, "modernbert", tokenizer_class="PreTrainedTokenizerFast", cls_token="[CLS]", sep_token="[SEP]",
             pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]")
    return directory


def train_sentencepiece(path, **options):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_prefix=str(path.with_suffix("")), vocab_size=1000,
        hard_vocab_limit=False, num_threads=1, minloglevel=2, character_coverage=0.998,
        **options)


SENTENCEPIECE_FILES = {"xlm-roberta": "sentencepiece.bpe.model", "camembert": "sentencepiece.bpe.model", "albert": "spiece.model",
                       "t5": "spiece.model", "xlnet": "spiece.model", "deberta-v2": "spm.model"}
PIECES_OF_FAMILIES = {
    "xlm-roberta": {}, "camembert": {},
    "albert": {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": ["[CLS]", "[SEP]"],
               "user_defined_symbols": ["[MASK]"]},
    "t5": {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "xlnet": {"control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]},
    "deberta-v2": {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]",
                   "pad_piece": "[PAD]"},
}


def sentencepiece_family(root, model_type, **config):
    directory = new_directory(root, model_type)
    train_sentencepiece(directory / SENTENCEPIECE_FILES[model_type], model_type="unigram",
                        normalization_rule_name="nmt_nfkc", **PIECES_OF_FAMILIES[model_type])
    (directory / SENTENCEPIECE_FILES[model_type]).with_suffix(".vocab").unlink()
    settings(directory, model_type, **config)
    return directory


def generic_sentencepiece(root, **options):
    directory = new_directory(root, "generic")
    train_sentencepiece(directory / "tokenizer.model", **options)
    settings(directory, "", tokenizer_class="PreTrainedTokenizerFast")
    return directory


def mpnet(root):
    directory = new_directory(root, "mpnet")
    tokens = ["<s>", "<pad>", "</s>", "[UNK]", *(chr(c) for c in range(33, 127)), *("##" + chr(c) for c in range(97, 123)),
              *(word for sentence in corpus()[:200] for word in sentence.lower().split()), "<mask>"]
    (directory / "vocab.txt").write_text("\n".join(dict.fromkeys(tokens)) + "\n", encoding="utf-8")
    settings(directory, "mpnet")
    return directory


def from_components(root, tokenizer, **config):
    directory = new_directory(root, "components")
    tokenizer.save(str(directory / "tokenizer.json"))
    settings(directory, "", tokenizer_class="PreTrainedTokenizerFast", **config)
    return directory


def unigram(byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(corpus(), trainers.UnigramTrainer(
        vocab_size=900, special_tokens=["<unk>", *(f"<0x{b:02X}>" for b in range(256))] if byte_fallback else ["<unk>"],
        unk_token="<unk>", show_progress=False))
    if byte_fallback:
        vocabulary = [(token, -20.0 if token.startswith("<0x") else score) for token, score in
                      json.loads(tokenizer.to_str())["model"]["vocab"]]
        tokenizer.model = models.Unigram(vocabulary, unk_id=0, byte_fallback=True)
    return tokenizer


def many_normalizers(root):
    tokenizer = unigram()
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(left=True, right=True),
        normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace("«", "<<"), normalizers.Prepend("_")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation(behavior="contiguous"),
        pre_tokenizers.Metaspace(prepend_scheme="first")])
    return from_components(root, tokenizer)


def byte_fallback(root):
    tokenizer = unigram(byte_fallback=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None
    return from_components(root, tokenizer)


def whitespace_words(root):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.NFKD()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=900, special_tokens=["[UNK]"], show_progress=False, end_of_word_suffix="</w>",
        continuing_subword_prefix="##"))
    return from_components(root, tokenizer)


def split_patterns(root):
    tokenizer = train_byte_level(["<|x|>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                                   r"\s*[\r\n]+|\s+(?!\S)|\s+"), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
        processors.TemplateProcessing(single="<|x|>:0 $A:0", pair="<|x|>:0 $A:0 $B:1", special_tokens=[("<|x|>", 0)])])
    return from_components(root, tokenizer)


def wordpiece_components(root):
    words = [word for sentence in corpus()[:300] for word in sentence.split()]
    tokens = ["[UNK]", "[CLS]", "[SEP]", *(chr(c) for c in range(33, 0x500)), *("##" + chr(c) for c in range(97, 0x250)), *words]
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(dict.fromkeys(tokens))}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits()])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return from_components(root, tokenizer)


def shared_copy(root, source, name, model_type, **config):
    directory = new_directory(root, model_type)
    for file in ([SHARED / source] if name else (SHARED / source).iterdir()):
        shutil.copyfile(file, directory / (name or file.name))
    settings(directory, model_type, **config)
    return directory


OWN = {
    "roberta": roberta,
    "roberta with prefix": roberta_with_prefix,
    "gpt2": gpt2,
    "gpt2 with ends": gpt2_with_ends,
    "deberta": deberta,
    "modernbert": modernbert,
    "mpnet": mpnet,
    "many normalizers": many_normalizers,
    "byte fallback": byte_fallback,
    "whitespace words": whitespace_words,
    "split patterns": split_patterns,
    "wordpiece components": wordpiece_components,
    "generic bpe": functools.partial(generic_sentencepiece, model_type="bpe", user_defined_symbols=["<u>", "a.b"], byte_fallback=True),
    "generic unigram": functools.partial(generic_sentencepiece, model_type="unigram", normalization_rule_name="nfkc"),
    **{name: functools.partial(sentencepiece_family, model_type=name) for name in SENTENCEPIECE_FILES},
    "cased albert": functools.partial(sentencepiece_family, model_type="albert", do_lower_case=False, keep_accents=True),
    "deberta-v2 with switches": functools.partial(sentencepiece_family, model_type="deberta-v2", do_lower_case=True, split_by_punct=True,
                                                  add_prefix_space=False),
}
REAL = {
    "real bert_chinese": functools.partial(shared_copy, source="bert_chinese", name="", model_type="bert"),
    "real roberta": functools.partial(shared_copy, source="roberta", name="", model_type="roberta"),
    "real t5": functools.partial(shared_copy, source="t5/spiece.model", name="spiece.model", model_type="t5"),
    "real xlnet": functools.partial(shared_copy, source="xlnet/spiece.model", name="spiece.model", model_type="xlnet"),
    **{f"{file} as {model_type}": functools.partial(
        shared_copy, source=f"sentencepiece_tests/{file}.model", name=name, model_type=model_type)
       for file in ("test_model", "test_ja_model") for model_type, name in SENTENCEPIECE_FILES.items() if model_type in ("xlm-roberta", "camembert", "deberta-v2")},
}
