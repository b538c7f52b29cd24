#include "tokenizer_directory.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "finetune/core/error.h"
#include "finetune/core/file.h"

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
// Their files look like BERT's, but the class adds something of its own.
constexpr std::array<std::string_view, 5> kOtherClasses = {
    "BertJapaneseTokenizer", "FunnelTokenizer", "MPNetTokenizer", "RoFormerTokenizer", "SplinterTokenizer"};
constexpr std::array<std::string_view, 5> kOtherModelTypes = {"bert-japanese", "funnel", "mpnet", "roformer",
                                                              "splinter"};

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
      ", expected a WordPiece tokenizer (BertTokenizer, DistilBertTokenizer, ElectraTokenizer, or a "
      "tokenizer.json of that kind); use a model of the BERT, DistilBERT or ELECTRA family");
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
  const bool has_vocabulary = directory.has("vocab.txt");
  if (!directory.tokenizer && !has_vocabulary) {
    if (directory.has("vocab.json") || directory.has("merges.txt")) {
      throw_unsupported(directory, "vocab.json and merges.txt of a byte-level BPE tokenizer");
    }
    throw CheckpointError(
        directory.path.string() +
        ": no tokenizer files; expected tokenizer.json or vocab.txt. Copy them from where the model "
        "came from");
  }
  std::string named = string_or_empty(directory.tokenizer_config, "tokenizer_class");
  if (named.empty()) named = string_or_empty(directory.config, "tokenizer_class");
  named = without_fast(named);
  const std::string model_type = string_or_empty(directory.config, "model_type");
  if (contains(kOtherClasses, named)) throw_unsupported(directory, "tokenizer class " + named);
  if (named.empty() && contains(kOtherModelTypes, model_type)) {
    throw_unsupported(directory, "model_type '" + model_type + "'");
  }

  if (contains(kBertClasses, named)) return {TokenizerBuild::kBert, named};
  if (contains(kBertFromFileClasses, named)) {
    return {directory.tokenizer ? TokenizerBuild::kBertFromFile : TokenizerBuild::kBert, named};
  }
  if (named.empty() && contains(kBertModelTypes, model_type)) {
    // DistilBERT has no token types, and its class gives none to the model.
    return {TokenizerBuild::kBert, model_type == "distilbert" ? "DistilBertTokenizer" : "BertTokenizer"};
  }
  if (directory.tokenizer) {
    return {TokenizerBuild::kFromFile, named.empty() ? "PreTrainedTokenizerFast" : named};
  }
  const bool generic = named == "PreTrainedTokenizerFast" || named == "TokenizersBackend";
  if (!named.empty() && !generic) throw_unsupported(directory, "tokenizer class " + named);
  if (!model_type.empty() && !generic) throw_unsupported(directory, "model_type '" + model_type + "'");
  return {TokenizerBuild::kBert, "BertTokenizer"};
}

}  // namespace finetune
