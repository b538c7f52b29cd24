#pragma once

/// Runs of the product on a tiny BERT, and what their logs say.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "finetune/config/load.h"
#include "finetune/core/json.h"
#include "finetune/train/run.h"

namespace finetune::sim {

/// A folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "finetune-sim-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path tiny_model() {
  return std::filesystem::path(FINETUNE_TEST_DATA) / "cases" / "30-accumulation-and-steps" / "model";
}

/// Rows of one to twelve words of the tiny model, with labels that nothing but the row's number decides.
inline void write_rows(const std::filesystem::path& file, int num_rows, unsigned seed) {
  std::vector<std::string> words;
  std::ifstream vocabulary(tiny_model() / "vocab.txt");
  for (std::string word; std::getline(vocabulary, word);) {
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    if (std::all_of(word.begin(), word.end(), is_letter)) words.push_back(word);
  }
  std::mt19937 random(seed);
  std::ofstream out(file);
  out << "text,label,value\n";
  for (int row = 0; row < num_rows; ++row) {
    const auto num_words = 1 + random() % 12;
    for (unsigned i = 0; i < num_words; ++i) out << (i > 0 ? " " : "") << words[random() % words.size()];
    out << "," << (row % 3 == 0 ? "yes" : "no") << "," << 0.25 * (row % 5) << "\n";
  }
}

/// The same rows as words with tags.
inline void write_tagged_rows(const std::filesystem::path& table, const std::filesystem::path& file) {
  std::ifstream in(table);
  std::ofstream out(file);
  std::string line;
  std::getline(in, line);  // the header
  while (std::getline(in, line)) {
    std::istringstream words(line.substr(0, line.find(',')));
    for (std::string word; words >> word;) out << word << (word[0] < 'n' ? " B-X\n" : " O\n");
    out << "\n";
  }
}

/// The rows of a table again, the first words of each as fields of one of two classes.
inline void write_field_rows(const std::filesystem::path& table, const std::filesystem::path& file) {
  std::ifstream in(table);
  std::ofstream out(file);
  std::string line;
  std::getline(in, line);  // the header
  while (std::getline(in, line)) {
    const std::string text = line.substr(0, line.find(','));
    std::istringstream words(text);
    Json fields = Json::array(), labels = Json::array();
    for (std::string word; fields.size() < 2 && words >> word;) {
      fields.push_back(word);
      labels.push_back(word[0] % 2);
    }
    out << Json{{"text", text}, {"fields", fields}, {"labels", labels}}.dump() << "\n";
  }
}

/// 50 updates with dropout, clipping, and micro-batches where `micro_batch_size` is below the batch.
inline Json tiny_config(const std::filesystem::path& folder, const std::string& device) {
  if (!std::filesystem::exists(folder / "train.csv")) {
    write_rows(folder / "train.csv", 70, 1);
    write_rows(folder / "validation.csv", 30, 2);
    write_tagged_rows(folder / "train.csv", folder / "train.conll");
    write_tagged_rows(folder / "validation.csv", folder / "validation.conll");
    write_field_rows(folder / "train.csv", folder / "train.jsonl");
    write_field_rows(folder / "validation.csv", folder / "validation.jsonl");
  }
  return Json{{"output_dir", "run"},
              {"device", device},
              {"threads", 1},
              {"model", {{"path", tiny_model().string()}, {"dropout", 0.1}, {"attention_dropout", 0.1}}},
              {"data", {{"train", "train.csv"}, {"validation", "validation.csv"}, {"max_length", 16}}},
              {"train",
               {{"max_steps", 50},
                {"batch_size", 8},
                {"micro_batch_size", 3},
                {"log_every", 1},
                {"eval_every", "25 steps"}}},
              {"optimizer", {{"learning_rate", 1e-3}, {"max_grad_norm", 0.5}}},
              {"checkpoint", {{"save_every", "25 steps"}}}};
}

inline std::vector<Json> events_of(const std::filesystem::path& run_folder, const std::string& kind) {
  std::vector<Json> events;
  std::ifstream log(run_folder / "metrics.jsonl");
  for (std::string line; std::getline(log, line);) {
    Json event = Json::parse(line);
    if (event.at("event") == kind) events.push_back(std::move(event));
  }
  return events;
}

/// One value of each event.
inline std::vector<double> values_of(const std::vector<Json>& events, const char* key) {
  std::vector<double> values;
  for (const Json& event : events) values.push_back(event.at(key).get<double>());
  return values;
}

}  // namespace finetune::sim
