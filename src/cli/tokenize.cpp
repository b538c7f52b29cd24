#include <iostream>

#include "commands.h"
#include "finetune/core/error.h"
#include "finetune/core/json.h"
#include "finetune/data/row_reader.h"
#include "finetune/tokenizer/tokenizer.h"

namespace finetune::cli {
namespace {

struct TokenizeOptions {
  std::filesystem::path model;
  std::string input = "-";
  bool pair = false;
};

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Code points before each byte of `text`: what turns byte offsets into Python's.
std::vector<int32_t> code_point_index(std::string_view text) {
  std::vector<int32_t> index(text.size() + 1);
  int32_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && !continues_character(text[i])) ++count;
    index[i] = count;
  }
  index[text.size()] = text.empty() ? 0 : count + 1;
  return index;
}

Json describe(const Tokenizer& tokenizer, const Encoding& encoding, std::string_view text,
              std::string_view pair) {
  const auto first = code_point_index(text);
  const auto second = code_point_index(pair);
  Json tokens = Json::array(), offsets = Json::array(), word_ids = Json::array();
  for (size_t i = 0; i < encoding.input_ids.size(); ++i) {
    const auto& index = encoding.sequence_ids[i] == 1 ? second : first;
    const ByteSpan span = encoding.offsets[i];
    tokens.push_back(tokenizer.id_to_token(encoding.input_ids[i]));
    offsets.push_back({index[static_cast<size_t>(span.begin)], index[static_cast<size_t>(span.end)]});
    word_ids.push_back(encoding.word_ids[i] < 0 ? Json() : Json(encoding.word_ids[i]));
  }
  return Json{{"input_ids", encoding.input_ids},
              {"token_type_ids", encoding.token_type_ids},
              {"tokens", tokens},
              {"offsets", offsets},
              {"word_ids", word_ids}};
}

int run_tokenize(const TokenizeOptions& options) {
  const auto tokenizer = load_tokenizer(options.model);
  const auto reader = open_lines(options.input, TextEncoding::kUtf8);
  const EncodeOptions encode{.max_length = 0, .truncation = TruncationStrategy::kNone};
  Row row;
  while (reader->next(row)) {
    std::string_view text = row.text;
    std::optional<std::string_view> pair;
    if (options.pair) {
      const size_t tab = text.find('\t');
      if (tab == std::string_view::npos) {
        throw DataError(reader->file().string() + ":" + std::to_string(row.line) +
                        ": no tab; with --pair a line holds two texts with a tab between them");
      }
      pair = text.substr(tab + 1);
      text = text.substr(0, tab);
    }
    std::cout << describe(*tokenizer, tokenizer->encode(text, pair, encode), text, pair.value_or("")).dump()
              << '\n';
  }
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command =
      app.add_subcommand("tokenize", "Show how texts are tokenised: one line of JSON a line of input");
  command->add_option("--model", options->model, "Model directory")->required();
  command->add_option("--input", options->input, "File, or - for stdin")->capture_default_str();
  command->add_flag("--pair", options->pair, "Lines hold two texts, with a tab between them");
  command->callback([options, &action] { action = [options] { return run_tokenize(*options); }; });
}

}  // namespace finetune::cli
