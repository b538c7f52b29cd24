#include "model_input.h"

#include <algorithm>
#include <map>

namespace finetune::cli {
namespace {

const std::map<std::string, DataFormat> kFormats{
    {"auto", DataFormat::kAuto},   {"csv", DataFormat::kCsv},     {"tsv", DataFormat::kTsv},
    {"jsonl", DataFormat::kJsonl}, {"conll", DataFormat::kConll}, {"folder", DataFormat::kFolder}};
const std::map<std::string, TextEncoding> kEncodings{{"utf-8", TextEncoding::kUtf8},
                                                     {"utf-8-replace", TextEncoding::kUtf8Replace},
                                                     {"latin-1", TextEncoding::kLatin1},
                                                     {"utf-16", TextEncoding::kUtf16}};

}  // namespace

ColumnName column_of(const std::string& text) {
  const bool is_number =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_number) return {"", std::stoul(text)};
  return {text, {}};
}

void add_data_flags(CLI::App& command, DataFlags& flags) {
  command.add_option("--text", flags.text, "Column of the text (name, or number from 0)");
  command.add_option("--text-pair", flags.text_pair, "Column of the second text");
  command.add_option("--label", flags.label, "Column of the label");
  command
      .add_option("--format", flags.format, "csv, tsv, jsonl, conll or folder; default by the file's name")
      ->check(CLI::IsMember(kFormats));
  command.add_option("--encoding", flags.encoding, "utf-8, utf-8-replace, latin-1 or utf-16")
      ->check(CLI::IsMember(kEncodings));
  command.add_option("--max-length", flags.max_length, "Tokens a row")->check(CLI::Range(1, 1 << 20));
}

void add_model_input_flags(CLI::App& command, ModelInputFlags& flags) {
  command.add_option("--model", flags.model, "Model directory, e.g. RUN/model")->required();
  command.add_option("--device", flags.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--threads", flags.threads, "CPU threads; 0: all")->capture_default_str();
  add_data_flags(command, flags);
}

Json row_json(const Row& row) {
  Json line = Json::object();
  if (row.items.empty() || !row.text.empty()) line["text"] = row.text;
  if (row.text_pair) line["text_pair"] = *row.text_pair;
  return line;
}

DataConfig with_flags(DataConfig data, const DataFlags& flags) {
  if (!flags.text.empty()) data.text = column_of(flags.text);
  if (!flags.text_pair.empty()) data.text_pair = column_of(flags.text_pair);
  if (!flags.label.empty()) data.label = column_of(flags.label);
  if (!flags.format.empty()) data.format = kFormats.at(flags.format);
  if (!flags.encoding.empty()) data.encoding = kEncodings.at(flags.encoding);
  if (flags.max_length) data.max_length = *flags.max_length;
  return data;
}

}  // namespace finetune::cli
