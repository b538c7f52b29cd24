#include "pipeline_families.h"

#include <algorithm>
#include <array>

#include "base64.h"
#include "json_access.h"

namespace finetune {
namespace {

using nlohmann::json;
using Names = std::vector<std::pair<std::string, std::string>>;

const Names kRobertaTokens = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"sep_token", "</s>"},
                              {"cls_token", "<s>"},    {"unk_token", "<unk>"}, {"pad_token", "<pad>"},
                              {"mask_token", "<mask>"}};
const Names kDebertaTokens = {{"bos_token", "[CLS]"},  {"eos_token", "[SEP]"}, {"sep_token", "[SEP]"},
                              {"cls_token", "[CLS]"},  {"unk_token", "[UNK]"}, {"pad_token", "[PAD]"},
                              {"mask_token", "[MASK]"}};
const Names kAlbertTokens = {{"bos_token", "[CLS]"},  {"eos_token", "[SEP]"}, {"sep_token", "[SEP]"},
                             {"cls_token", "[CLS]"},  {"unk_token", "<unk>"}, {"pad_token", "<pad>"},
                             {"mask_token", "[MASK]"}};
const Names kXlnetTokens = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"sep_token", "<sep>"},
                            {"cls_token", "<cls>"},  {"unk_token", "<unk>"}, {"pad_token", "<pad>"},
                            {"mask_token", "<mask>"}};
const Names kMpnetTokens = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"sep_token", "</s>"},
                            {"cls_token", "<s>"},    {"unk_token", "[UNK]"}, {"pad_token", "<pad>"},
                            {"mask_token", "<mask>"}};
const Names kGpt2Tokens = {
    {"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}};
const Names kT5Tokens = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};

const std::vector<TokenizerFamily>& families() {
  static const std::vector<TokenizerFamily> kFamilies = {
      {FamilyKind::kRoberta, "RobertaTokenizer", ModelKind::kBpe, "", kRobertaTokens, {}},
      {FamilyKind::kRoberta, "BartTokenizer", ModelKind::kBpe, "", kRobertaTokens, {}},
      {FamilyKind::kGpt2, "GPT2Tokenizer", ModelKind::kBpe, "", kGpt2Tokens, {}},
      {FamilyKind::kDeberta, "DebertaTokenizer", ModelKind::kBpe, "", kDebertaTokens, {}},
      {FamilyKind::kXlmRoberta,
       "XLMRobertaTokenizer",
       ModelKind::kUnigram,
       "sentencepiece.bpe.model",
       kRobertaTokens,
       {}},
      {FamilyKind::kCamembert,
       "CamembertTokenizer",
       ModelKind::kUnigram,
       "sentencepiece.bpe.model",
       kRobertaTokens,
       {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"},
       true},
      {FamilyKind::kAlbert, "AlbertTokenizer", ModelKind::kUnigram, "spiece.model", kAlbertTokens, {}},
      {FamilyKind::kT5, "T5Tokenizer", ModelKind::kUnigram, "spiece.model", kT5Tokens, {}},
      {FamilyKind::kXlnet,
       "XLNetTokenizer",
       ModelKind::kUnigram,
       "spiece.model",
       kXlnetTokens,
       {"<eop>", "<eod>"},
       true},
      {FamilyKind::kDebertaV2, "DebertaV2Tokenizer", ModelKind::kUnigram, "spm.model", kDebertaTokens, {}},
      {FamilyKind::kMpnet, "MPNetTokenizer", ModelKind::kWordPiece, "", kMpnetTokens, {}, true},
  };
  return kFamilies;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 29> kModelTypes = {{
    {"roberta", "RobertaTokenizer"},
    {"roberta-prelayernorm", "RobertaTokenizer"},
    {"bart", "RobertaTokenizer"},
    {"longformer", "RobertaTokenizer"},
    {"data2vec-text", "RobertaTokenizer"},
    {"ibert", "RobertaTokenizer"},
    {"lilt", "RobertaTokenizer"},
    {"mega", "RobertaTokenizer"},
    {"mra", "RobertaTokenizer"},
    {"bridgetower", "RobertaTokenizer"},
    {"clap", "RobertaTokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
    {"xmod", "XLMRobertaTokenizer"},
    {"gte", "XLMRobertaTokenizer"},
    {"jina_embeddings_v3", "XLMRobertaTokenizer"},
    {"camembert", "CamembertTokenizer"},
    {"albert", "AlbertTokenizer"},
    {"yoso", "AlbertTokenizer"},
    {"t5", "T5Tokenizer"},
    {"mt5", "T5Tokenizer"},
    {"switch_transformers", "T5Tokenizer"},
    {"xlnet", "XLNetTokenizer"},
    {"deberta", "DebertaTokenizer"},
    {"deberta-v2", "DebertaV2Tokenizer"},
    {"mpnet", "MPNetTokenizer"},
    {"gpt2", "GPT2Tokenizer"},
    {"gpt_neo", "GPT2Tokenizer"},
    {"gptj", "GPT2Tokenizer"},
    {"opt", "GPT2Tokenizer"},
}};

constexpr int64_t kNumExtraIds = 100;  // of T5, where extra_ids is not set

json metaspace(const char* prepend_scheme) {
  return {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", prepend_scheme}, {"split", true}};
}

json words_then_metaspace(bool prepends) {
  return {{"type", "Sequence"},
          {"pretokenizers", {{{"type", "WhitespaceSplit"}}, metaspace(prepends ? "always" : "never")}}};
}

json byte_level(bool add_prefix_space, bool trim_offsets) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", true}};
}

json replace(const json& pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

json sequence(json parts) { return {{"type", "Sequence"}, {"normalizers", std::move(parts)}}; }

json precompiled(std::string_view charsmap) {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(charsmap)}};
}

/// ALBERT's and XLNet's.
json quotes_and_accents(bool strips_accents, bool lowercase, std::string_view charsmap) {
  json parts = json::array({replace({{"String", "``"}}, "\""), replace({{"String", "''"}}, "\"")});
  if (strips_accents) {
    parts.push_back({{"type", "NFKD"}});
    parts.push_back({{"type", "StripAccents"}});
  }
  if (lowercase) parts.push_back({{"type", "Lowercase"}});
  if (!charsmap.empty()) parts.push_back(precompiled(charsmap));
  return sequence(std::move(parts));
}

json deberta_v2_normalizer(bool lowercase) {
  json parts = json::array();
  if (lowercase) parts.push_back({{"type", "Lowercase"}});
  parts.push_back(replace({{"Regex", "\\s{2,}|[\\n\\r\\t]"}}, " "));
  parts.push_back({{"type", "NFC"}});
  parts.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
  return sequence(std::move(parts));
}

json deberta_v2_pre_tokenizer(bool splits_punctuation, bool prepends) {
  json parts = json::array();
  if (splits_punctuation) parts.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  parts.push_back(metaspace(prepends ? "always" : "first"));
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

json mpnet_normalizer(const TokenizerSettings& settings) {
  json strip_accents;
  if (const auto flag = settings.flag("strip_accents")) strip_accents = *flag;
  return {{"type", "BertNormalizer"},
          {"clean_text", true},
          {"handle_chinese_chars", settings.flag("tokenize_chinese_chars").value_or(true)},
          {"strip_accents", strip_accents},
          {"lowercase", settings.flag("do_lower_case").value_or(true)}};
}

/// A template of `before` A `between` B `after`, all of one type.
RowTemplate plain_template(std::vector<TemplateToken> before, std::vector<TemplateToken> between,
                           std::vector<TemplateToken> after) {
  return {{before, after, 0}, {before, std::move(between), after, 0, 0}};
}

RowTemplate xlnet_template(TemplateToken sep, TemplateToken cls) {
  cls.type_id = 2;
  TemplateToken second_sep = sep;
  second_sep.type_id = 1;
  return {{{}, {sep, cls}, 0}, {{}, {sep}, {second_sep, cls}, 0, 1}};
}

/// GPT-2 adds tokens only where it is asked to.
PostProcessor gpt2_post_processor(const TokenizerSettings& settings, const TemplateToken& bos,
                                  const TemplateToken& eos) {
  RowTemplate rows;
  const auto typed = [](TemplateToken token, int32_t type_id) {
    token.type_id = type_id;
    return token;
  };
  if (settings.flag("add_bos_token").value_or(false)) {
    rows.single.before = rows.pair.before = {bos};
    rows.pair.between = {typed(bos, 1)};
  }
  if (settings.flag("add_eos_token").value_or(false)) {
    rows.single.after = {eos};
    rows.pair.between.insert(rows.pair.between.begin(), eos);
    rows.pair.after = {typed(eos, 1)};
  }
  return {rows, rows.single.num_special() > 0, {}};
}

}  // namespace

const TokenizerFamily* find_family(std::string_view class_name) {
  const auto found = std::find_if(families().begin(), families().end(),
                                  [&](const auto& family) { return family.class_name == class_name; });
  return found == families().end() ? nullptr : &*found;
}

std::string_view family_class_of_model_type(std::string_view model_type) {
  const auto found = std::find_if(kModelTypes.begin(), kModelTypes.end(),
                                  [&](const auto& entry) { return entry.first == model_type; });
  return found == kModelTypes.end() ? std::string_view() : found->second;
}

void set_pieces(const TokenizerFamily& family, const SentencePieceFile& file,
                const TokenizerSettings& settings, PipelineSpec& spec) {
  std::vector<std::string> tokens;
  const auto add = [&](std::string token, double score) {
    tokens.push_back(std::move(token));
    spec.scores.push_back(score);
  };
  const auto add_named = [&](const char* key) { add(spec.named_token(key), 0.0); };
  size_t first = 0;
  if (family.kind == FamilyKind::kXlmRoberta) {
    for (const char* key : {"bos_token", "pad_token", "eos_token", "unk_token"}) add_named(key);
    first = 3;
  } else if (family.kind == FamilyKind::kCamembert) {
    add("<s>NOTUSED", 0.0);
    add_named("pad_token");
    add("</s>NOTUSED", 0.0);
    add_named("unk_token");
    add("<unk>NOTUSED", -100.0);
    first = 1;
  }
  for (size_t i = first; i < file.pieces.size(); ++i) {
    add(file.pieces[i].text, static_cast<double>(file.pieces[i].score));
  }
  if (first > 0) add_named("mask_token");
  if (family.kind == FamilyKind::kT5) {
    for (int64_t i = settings.number("extra_ids").value_or(kNumExtraIds) - 1; i >= 0; --i) {
      add("<extra_id_" + std::to_string(i) + ">", 0.0);
    }
  }
  spec.vocabulary = Vocabulary::from_lines(std::move(tokens));
}

std::optional<int32_t> family_unk_id(const TokenizerFamily& family, const PipelineSpec& spec,
                                     int64_t fallback) {
  const std::string unknown = spec.named_token("unk_token");
  switch (family.kind) {
    case FamilyKind::kXlmRoberta:
      return 3;
    case FamilyKind::kT5:
      return 2;
    case FamilyKind::kAlbert:
      return 1;
    case FamilyKind::kCamembert:
    case FamilyKind::kDebertaV2:
      for (int32_t id = 0; id < spec.vocabulary.end_id(); ++id) {
        if (spec.vocabulary.token(id) != unknown) continue;
        if (family.kind == FamilyKind::kCamembert || spec.scores[static_cast<size_t>(id)] == 0.0) return id;
      }
      return family.kind == FamilyKind::kCamembert ? 0 : static_cast<int32_t>(fallback);
    default:
      return static_cast<int32_t>(fallback);
  }
}

void set_components(const TokenizerFamily& family, const TokenizerSettings& settings,
                    std::string_view charsmap, PipelineSpec& spec) {
  const auto flag = [&](const char* key, bool fallback) { return settings.flag(key).value_or(fallback); };
  const json metaspace_decoder = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
  spec.decoder = metaspace_decoder;
  switch (family.kind) {
    case FamilyKind::kRoberta:
    case FamilyKind::kGpt2:
    case FamilyKind::kDeberta:
      spec.pre_tokenizer = byte_level(flag("add_prefix_space", false), true);
      spec.decoder = byte_level(true, true);
      break;
    case FamilyKind::kXlmRoberta:
    case FamilyKind::kCamembert:
    case FamilyKind::kT5:
      if (!charsmap.empty()) spec.normalizer = precompiled(charsmap);
      spec.pre_tokenizer =
          words_then_metaspace(family.kind == FamilyKind::kT5 || flag("add_prefix_space", true));
      break;
    case FamilyKind::kAlbert:
      spec.normalizer =
          quotes_and_accents(!flag("keep_accents", false), flag("do_lower_case", true), charsmap);
      spec.pre_tokenizer = words_then_metaspace(flag("add_prefix_space", true));
      break;
    case FamilyKind::kXlnet:
      spec.normalizer = quotes_and_accents(true, flag("do_lower_case", false), charsmap);
      spec.pre_tokenizer = words_then_metaspace(true);
      break;
    case FamilyKind::kDebertaV2:
      spec.normalizer = deberta_v2_normalizer(flag("do_lower_case", false));
      spec.pre_tokenizer =
          deberta_v2_pre_tokenizer(flag("split_by_punct", false), flag("add_prefix_space", true));
      break;
    case FamilyKind::kMpnet:
      spec.wordpiece.unk_token = spec.named_token("unk_token");
      spec.normalizer = mpnet_normalizer(settings);
      spec.pre_tokenizer = {{"type", "BertPreTokenizer"}};
      spec.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
      break;
  }
}

PostProcessor family_post_processor(const TokenizerFamily& family, const TokenizerSettings& settings,
                                    const PipelineSpec& spec, const std::optional<PostProcessor>& from_file) {
  const auto token = [&](const char* key) {
    const std::string content = spec.named_token(key);
    return TemplateToken{content, spec.token_id(content).value_or(0), 0};
  };
  const TemplateToken cls = token("cls_token"), sep = token("sep_token");
  const TemplateToken bos = token("bos_token"), eos = token("eos_token");
  switch (family.kind) {
    case FamilyKind::kRoberta:
      return {
          roberta_template(cls.token, cls.id, sep.token, sep.id),
          true,
          {settings.flag("trim_offsets").value_or(true), settings.flag("add_prefix_space").value_or(false)}};
    case FamilyKind::kMpnet:
      return {roberta_template(cls.token, cls.id, sep.token, sep.id), true, {true, false}};
    case FamilyKind::kGpt2:
      return from_file ? *from_file : gpt2_post_processor(settings, bos, eos);
    case FamilyKind::kDeberta:
      return {plain_template({cls}, {sep, sep}, {sep}), true, {}};
    case FamilyKind::kXlmRoberta:
    case FamilyKind::kCamembert:
      return {plain_template({bos}, {eos, eos}, {eos}), true, {}};
    case FamilyKind::kT5:
      return {plain_template({}, {eos}, {eos}), true, {}};
    case FamilyKind::kXlnet:
      return {xlnet_template(sep, cls), true, {}};
    case FamilyKind::kAlbert:
      if (from_file) return *from_file;
      [[fallthrough]];
    default:
      return {bert_template(cls.token, cls.id, sep.token, sep.id), true, {}};
  }
}

}  // namespace finetune
