#include "tokenizer_directory.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "pipeline_families.h"

namespace finetune {
namespace {

template <typename Value>
Value parse_object(const std::filesystem::path& path) {
  Value value;
  try {
    value = Value::parse(read_file(path));
  } catch (const nlohmann::json::parse_error& error) {
    throw CheckpointError(path.string() + ": not valid JSON at byte " + std::to_string(error.byte) +
                          "; copy the file anew from where the model came from");
  } catch (const std::system_error& error) {
    throw CheckpointError(std::string(error.what()) + "; check the path and its permissions");
  }
  if (!value.is_object()) {
    throw CheckpointError(path.string() + ": found " + value.type_name() + ", expected a JSON object");
  }
  return value;
}

Json parse_if_there(const TokenizerDirectory& directory, const std::string& name) {
  return directory.has(name) ? parse_object<Json>(directory.file(name)) : Json::object();
}

// Class names without "Fast", and the model types whose class BertTokenizer is where no file names one.
constexpr std::array<std::string_view, 8> kBertClasses = {
    "BertTokenizer",     "BertTokenizerLegacy", "DistilBertTokenizer", "ElectraTokenizer",
    "LayoutLMTokenizer", "MobileBertTokenizer", "LxmertTokenizer",     "SqueezeBertTokenizer"};
constexpr std::array<std::string_view, 4> kBertFromFileClasses = {
    "ConvBertTokenizer", "DPRQuestionEncoderTokenizer", "DPRContextEncoderTokenizer", "DPRReaderTokenizer"};
constexpr std::array<std::string_view, 26> kBertModelTypes = {"align",
                                                              "bark",
                                                              "bert",
                                                              "blip",
                                                              "bros",
                                                              "chinese_clip",
                                                              "convbert",
                                                              "distilbert",
                                                              "electra",
                                                              "ernie",
                                                              "flava",
                                                              "git",
                                                              "grounding-dino",
                                                              "layoutlm",
                                                              "megatron-bert",
                                                              "mobilebert",
                                                              "nezha",
                                                              "nomic_bert",
                                                              "qdqbert",
                                                              "realm",
                                                              "retribert",
                                                              "squeezebert",
                                                              "tvp",
                                                              "vilt",
                                                              "visual_bert",
                                                              "mm-grounding-dino"};
// Classes of the reference that build components of their own, which are not known here.
constexpr std::array<std::string_view, 37> kOtherClasses = {
    "BarthezTokenizer",    "BertJapaneseTokenizer", "BertweetTokenizer",    "BigBirdTokenizer",
    "BlenderbotTokenizer", "CLIPTokenizer",         "CamembertV2Tokenizer", "CodeGenTokenizer",
    "CodeLlamaTokenizer",  "CohereTokenizer",       "FNetTokenizer",        "FlaubertTokenizer",
    "FunnelTokenizer",     "GPTNeoXTokenizer",      "GemmaTokenizer",       "HerbertTokenizer",
    "LayoutLMv2Tokenizer", "LayoutLMv3Tokenizer",   "LayoutXLMTokenizer",   "LlamaTokenizer",
    "LukeTokenizer",       "MBart50Tokenizer",      "MBartTokenizer",       "MarkupLMTokenizer",
    "NllbTokenizer",       "OpenAIGPTTokenizer",    "PegasusTokenizer",     "PhobertTokenizer",
    "Qwen2Tokenizer",      "ReformerTokenizer",     "RemBertTokenizer",     "RoCBertTokenizer",
    "RoFormerTokenizer",   "SplinterTokenizer",     "UdopTokenizer",        "XGLMTokenizer",
    "XLMTokenizer"};
constexpr std::array<std::string_view, 21> kOtherModelTypes = {
    "barthez",  "bert-japanese", "bertweet",   "big_bird",   "fnet",      "flaubert", "funnel",
    "gpt_neox", "herbert",       "layoutlmv2", "layoutlmv3", "layoutxlm", "luke",     "mbart",
    "markuplm", "nllb",          "phobert",    "rembert",    "roc_bert",  "roformer", "splinter"};
// Model types whose tokenizer the reference takes from tokenizer.json as it is, whatever class is named.
constexpr std::array<std::string_view, 6> kFromFileModelTypes = {
    "bigbird_pegasus", "modernbert", "modernbert-decoder", "nystromformer", "umt5", "xlm-roberta-xl"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string string_or_empty(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string without_fast(std::string name) {
  if (name.ends_with("Fast") && name != "PreTrainedTokenizerFast") name.resize(name.size() - 4);
  return name;
}

[[noreturn]] void throw_unsupported(const TokenizerDirectory& directory, const std::string& what) {
  throw CheckpointError(
      directory.path.string() + ": found " + what +
      ", expected a tokenizer of BERT, DistilBERT, ELECTRA, MPNet, RoBERTa, GPT-2, DeBERTa, XLM-RoBERTa, "
      "CamemBERT, ALBERT, T5 or XLNet, or a tokenizer.json taken as it is; if that file says all, set "
      "\"tokenizer_class\": \"PreTrainedTokenizerFast\" in tokenizer_config.json");
}

/// Throws unless the files that a family reads are there.
void check_family_files(const TokenizerDirectory& directory, const TokenizerFamily& family) {
  if (directory.tokenizer) return;
  std::vector<std::string> files = {"vocab.json", "merges.txt"};
  if (!family.sentencepiece_file.empty()) files = {std::string(family.sentencepiece_file)};
  if (family.model == ModelKind::kWordPiece) files = {"vocab.txt"};
  for (const std::string& file : files) {
    if (directory.has(file)) continue;
    throw CheckpointError(directory.path.string() + ": no " + file + " and no tokenizer.json; " +
                          std::string(family.class_name) +
                          " needs one of the two. Copy them from where the model came from");
  }
}

/// What AutoTokenizer makes of class and model type where they name BERT's or one of the other families.
std::optional<TokenizerChoice> choose_known(const TokenizerDirectory& directory, const std::string& named,
                                            const std::string& model_type) {
  if (contains(kBertClasses, named)) return TokenizerChoice{TokenizerBuild::kBert, named};
  if (contains(kBertFromFileClasses, named)) {
    return TokenizerChoice{directory.tokenizer ? TokenizerBuild::kBertFromFile : TokenizerBuild::kBert,
                           named};
  }
  if (named.empty() && contains(kBertModelTypes, model_type)) {
    // DistilBERT has no token types, and its class gives none to the model.
    const char* const class_name = model_type == "distilbert" ? "DistilBertTokenizer" : "BertTokenizer";
    return TokenizerChoice{TokenizerBuild::kBert, class_name};
  }
  const std::string family_name = named.empty() ? std::string(family_class_of_model_type(model_type)) : named;
  const TokenizerFamily* family = find_family(family_name);
  if (family == nullptr) return std::nullopt;
  check_family_files(directory, *family);
  return TokenizerChoice{TokenizerBuild::kFamily, family_name};
}

}  // namespace

TokenizerDirectory read_tokenizer_directory(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    throw CheckpointError(path.string() +
                          ": no such directory; expected a Hugging Face model directory with " +
                          "tokenizer.json or vocab.txt");
  }
  TokenizerDirectory directory;
  directory.path = path;
  directory.config = parse_if_there(directory, "config.json");
  directory.tokenizer_config = parse_if_there(directory, "tokenizer_config.json");
  directory.special_tokens_map = parse_if_there(directory, "special_tokens_map.json");
  directory.added_tokens = parse_if_there(directory, "added_tokens.json");
  if (directory.has("tokenizer.json")) {
    directory.tokenizer = parse_object<nlohmann::json>(directory.file("tokenizer.json"));
  }
  return directory;
}

TokenizerChoice choose_tokenizer(const TokenizerDirectory& directory) {
  std::string named = string_or_empty(directory.tokenizer_config, "tokenizer_class");
  if (named.empty()) named = string_or_empty(directory.config, "tokenizer_class");
  named = without_fast(named);
  const std::string model_type = string_or_empty(directory.config, "model_type");
  const TokenizerChoice as_it_is = {TokenizerBuild::kFromFile, "PreTrainedTokenizerFast"};
  if (directory.tokenizer && contains(kFromFileModelTypes, model_type)) return as_it_is;
  if (contains(kOtherClasses, named)) throw_unsupported(directory, "tokenizer class " + named);
  if (named.empty() && contains(kOtherModelTypes, model_type)) {
    throw_unsupported(directory, "model_type '" + model_type + "'");
  }
  const bool generic = named == "PreTrainedTokenizerFast" || named == "TokenizersBackend";
  const bool has_files = directory.tokenizer || directory.has("vocab.txt") || directory.has("vocab.json") ||
                         directory.has("tokenizer.model");
  const std::optional<TokenizerChoice> known = has_files || !named.empty() || !model_type.empty()
                                                   ? choose_known(directory, named, model_type)
                                                   : std::nullopt;
  if (known && (known->build != TokenizerBuild::kBert || directory.tokenizer || directory.has("vocab.txt"))) {
    return *known;
  }
  if (directory.tokenizer) {
    return {TokenizerBuild::kFromFile, named.empty() ? "PreTrainedTokenizerFast" : named};
  }
  if (directory.has("tokenizer.model") && (generic || named.empty())) return as_it_is;
  if (!directory.has("vocab.txt")) {
    if (directory.has("vocab.json")) {
      throw_unsupported(directory, "vocab.json of a tokenizer whose class no file names");
    }
    throw CheckpointError(
        directory.path.string() +
        ": no tokenizer files; expected tokenizer.json, vocab.txt, vocab.json with merges.txt, or a "
        "SentencePiece model. Copy them from where the model came from");
  }
  if (!named.empty() && !generic) throw_unsupported(directory, "tokenizer class " + named);
  if (!model_type.empty() && !generic) throw_unsupported(directory, "model_type '" + model_type + "'");
  return {TokenizerBuild::kBert, "BertTokenizer"};
}

}  // namespace finetune
