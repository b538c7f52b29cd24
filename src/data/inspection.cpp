#include "finetune/data/inspection.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "finetune/core/error.h"
#include "finetune/core/signals.h"
#include "finetune/core/text.h"
#include "finetune/data/encoded_dataset.h"
#include "finetune/data/message.h"

namespace finetune {
namespace {

constexpr size_t kMostLengths = 1 << 16;
constexpr size_t kMostClasses = 10'000;
constexpr size_t kMostExamples = 5;
constexpr size_t kMostLabelNumbers = 1'000'000;
constexpr int64_t kUnlimited = INT64_MAX;
/// Lengths are wanted as they are.
constexpr EncodeOptions kWhole{.max_length = 0, .truncation = TruncationStrategy::kNone};

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

/// Without blanks at the ends, and one between words.
std::string normalized(std::string_view text) {
  std::string result;
  for (const char byte : text) {
    if (!is_blank(byte)) {
      result += byte;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  if (result.ends_with(' ')) result.pop_back();
  return result;
}

/// All of a row that a model reads.
std::string content_of(const Row& row) {
  std::string content = normalized(row.text);
  if (row.text_pair) content += '\x1f' + normalized(*row.text_pair);
  for (const std::string& item : row.items) content += '\x1e' + item;
  for (const int64_t position : row.positions) content += '\x1e' + std::to_string(position);
  return content;
}

/// Labels as one string; of classes the order does not matter.
std::string label_text(const Row& row, const DataConfig& data, LabelShape shape) {
  std::vector<std::string> labels;
  if (row.labels) {
    labels = *row.labels;
  } else if (row.label && shape == LabelShape::kClasses) {
    labels = split_at(*row.label, data.label_separator);
  } else {
    return row.label.value_or("");
  }
  if (shape == LabelShape::kClasses) std::sort(labels.begin(), labels.end());
  std::string text;
  for (const std::string& label : labels) text += (text.empty() ? "" : " ") + label;
  return text;
}

int64_t percentile(const std::vector<int64_t>& counts, int64_t rows, double share) {
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(rows)));
  int64_t sum = 0;
  for (size_t length = 0; length < counts.size(); ++length) {
    sum += counts[length];
    if (sum >= wanted) return static_cast<int64_t>(length);
  }
  return 0;
}

void summarize(LengthReport& report, std::optional<int64_t> own_limit) {
  report.mean = report.rows == 0 ? 0 : static_cast<double>(report.total) / static_cast<double>(report.rows);
  report.median = percentile(report.counts, report.rows, 0.5);
  report.p90 = percentile(report.counts, report.rows, 0.9);
  report.p95 = percentile(report.counts, report.rows, 0.95);
  report.p99 = percentile(report.counts, report.rows, 0.99);
  std::vector<int64_t> limits(LengthReport::kLimits.begin(), LengthReport::kLimits.end());
  if (own_limit && std::find(limits.begin(), limits.end(), *own_limit) == limits.end()) {
    limits.push_back(*own_limit);
    std::sort(limits.begin(), limits.end());
  }
  for (const int64_t limit : limits) {
    int64_t longer = 0;
    for (size_t length = static_cast<size_t>(limit) + 1; length < report.counts.size(); ++length)
      longer += report.counts[length];
    report.longer_than.emplace_back(limit, longer);
  }
}

void summarize(LabelReport& report, const std::unordered_map<std::string, int64_t>& counts, double squares) {
  report.counts.assign(counts.begin(), counts.end());
  std::sort(report.counts.begin(), report.counts.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (report.numbers == 0) return;
  const auto n = static_cast<double>(report.numbers);
  report.mean /= n;
  report.deviation = std::sqrt(std::max(0.0, squares / n - report.mean * report.mean));
}

}  // namespace

int64_t LengthReport::covering(double share) const { return percentile(counts, rows, share); }

void Inspection::add_file(const std::string& name, const std::filesystem::path& path,
                          std::optional<int64_t> max_rows) {
  if (splits_.empty() || splits_.back().name != name) {
    splits_.push_back(
        {.name = name, .lengths = {}, .labels = {}, .duplicates = {}, .samples = {}, .warnings = {}});
    splits_.back().lengths.in_tokens = options_.tokenizer != nullptr;
    splits_.back().labels.are_numbers = options_.shape == LabelShape::kValue;
    label_counts_.emplace_back();
    sums_of_squares_.push_back(0);
  }
  if (options_.tokenizer != nullptr && !unknown_id_) {
    for (const char* token : {"[UNK]", "<unk>"}) {
      if (!unknown_id_) unknown_id_ = options_.tokenizer->token_to_id(token);
    }
  }
  files_.push_back(path);
  const auto file = static_cast<uint16_t>(files_.size() - 1);
  const auto reader = open_rows(path, options_.data, LabelPresence::kOptional);
  Row row;
  constexpr int64_t kRowsBetweenChecks = 1'000;
  for (int64_t count = 0; count < max_rows.value_or(kUnlimited) && reader->next(row); ++count) {
    if (count % kRowsBetweenChecks == 0) throw_if_stop_requested();
    if (row.line == 0) row.line = count + 1;  // a file is a row
    add(row, file);
  }
  splits_.back().replaced += reader->num_replaced_rows();
}

void Inspection::add(const Row& row, uint16_t file) {
  SplitReport& split = splits_.back();
  ++split.rows;
  const bool has_text =
      std::any_of(row.text.begin(), row.text.end(), [](char byte) { return !is_blank(byte); });
  split.empty_texts += !has_text && row.items.empty();
  measure(row, split.lengths);
  count_labels(row, split.labels);
  if (static_cast<int64_t>(split.samples.size()) < options_.num_samples) keep_sample(row, file);
  remember(row, file);
}

Encoding Inspection::encode(const Row& row) const {
  if (item_kind(options_.data) == ItemKind::kWords)
    return options_.tokenizer->encode_words(row.items, kWhole);
  return options_.tokenizer->encode(row.text, row.text_pair, kWhole);
}

void Inspection::measure(const Row& row, LengthReport& lengths) {
  int64_t length = 0;
  if (options_.tokenizer == nullptr) {
    length = static_cast<int64_t>(split_at_blanks(row.text).size() + row.items.size());
    if (row.text_pair) length += static_cast<int64_t>(split_at_blanks(*row.text_pair).size());
  } else {
    ids_.clear();
    if (item_kind(options_.data) == ItemKind::kWords) {
      ids_ = encode(row).input_ids;
    } else {
      options_.tokenizer->append(row.text, row.text_pair, kWhole, ids_);
      for (const std::string& field : row.items) {  // a mark, the field and a separator
        ids_.resize(ids_.size() + 2 + options_.tokenizer->encode_plain(field).input_ids.size(), -1);
      }
    }
    length = static_cast<int64_t>(ids_.size());
    if (unknown_id_) lengths.unknown += std::count(ids_.begin(), ids_.end(), *unknown_id_);
  }
  const size_t slot = std::min(static_cast<size_t>(length), kMostLengths - 1);
  if (slot >= lengths.counts.size()) lengths.counts.resize(slot + 1, 0);
  ++lengths.counts[slot];
  ++lengths.rows;
  lengths.total += length;
  lengths.longest = std::max(lengths.longest, length);
}

void Inspection::count_labels(const Row& row, LabelReport& report) {
  if (!row.label && !row.labels) {
    ++report.unlabelled;
    return;
  }
  auto& counts = label_counts_.back();
  const auto count = [&](const std::string& label) {
    const auto found = counts.find(label);
    if (found != counts.end()) {
      ++found->second;
    } else if (counts.size() < kMostClasses) {
      counts.emplace(label, 1);
    } else {
      report.complete = false;
    }
  };
  if (report.are_numbers) {
    double value = 0;
    const std::string& text = *row.label;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      ++report.not_numbers;
      return;
    }
    report.lowest = report.numbers == 0 ? value : std::min(report.lowest, value);
    report.highest = report.numbers == 0 ? value : std::max(report.highest, value);
    report.mean += value;
    sums_of_squares_.back() += value * value;
    ++report.numbers;
  } else if (row.labels) {
    for (const std::string& label : *row.labels) count(label);
  } else if (options_.shape == LabelShape::kClasses) {
    for (const std::string& label : split_at(*row.label, options_.data.label_separator)) count(label);
  } else {
    count(*row.label);
  }
}

void Inspection::keep_sample(const Row& row, uint16_t file) {
  Sample sample{.place = place(file, row.line),
                .text = row.text,
                .text_pair = row.text_pair.value_or(""),
                .label = label_text(row, options_.data, options_.shape),
                .tokens = {}};
  for (const std::string& item : row.items) sample.text += (sample.text.empty() ? "" : " ") + item;
  if (options_.tokenizer != nullptr) {
    for (const int32_t id : encode(row).input_ids)
      sample.tokens.push_back(options_.tokenizer->id_to_token(id));
  }
  splits_.back().samples.push_back(std::move(sample));
}

uint32_t Inspection::label_number(const Row& row) {
  const std::string text = label_text(row, options_.data, options_.shape);
  const auto found = label_numbers_.find(text);
  if (found != label_numbers_.end()) return found->second;
  // Of so many different labels a hash does: two that are taken for the same are rare.
  if (label_numbers_.size() >= kMostLabelNumbers) {
    return static_cast<uint32_t>(std::hash<std::string>{}(text)) | 0x80000000u;
  }
  return label_numbers_.emplace(text, static_cast<uint32_t>(label_numbers_.size())).first->second;
}

void Inspection::remember(const Row& row, uint16_t file) {
  const std::string content = content_of(row);
  if (content.empty()) return;  // counted as empty texts
  const uint64_t hash = std::hash<std::string>{}(content);
  if (hash > largest_hash_) return;
  seen_.push_back({.hash = hash,
                   .label = label_number(row),
                   .line = static_cast<uint32_t>(std::min<int64_t>(row.line, UINT32_MAX)),
                   .file = file,
                   .split = static_cast<uint16_t>(splits_.size() - 1)});
  if (seen_.size() > options_.max_compared) thin_out();
}

/// Copies of a text have one hash, so they go or stay together.
void Inspection::thin_out() {
  largest_hash_ /= 2;
  std::erase_if(seen_, [&](const Seen& seen) { return seen.hash > largest_hash_; });
}

std::string Inspection::place(uint16_t file, int64_t line) const {
  std::error_code error;
  const auto& path = files_[file];
  const bool folder = std::filesystem::is_directory(path, error);
  return path.string() + (folder ? ", text " : ":") + std::to_string(line);
}

std::string Inspection::place(const Seen& seen) const { return place(seen.file, seen.line); }

void Inspection::compare(InspectionReport& report) {
  std::sort(seen_.begin(), seen_.end(), [](const Seen& a, const Seen& b) {
    return std::tie(a.hash, a.split, a.file, a.line) < std::tie(b.hash, b.split, b.file, b.line);
  });
  for (size_t begin = 0; begin < seen_.size();) {
    size_t end = begin + 1;
    while (end < seen_.size() && seen_[end].hash == seen_[begin].hash) ++end;
    if (end - begin > 1) compare_group(seen_.data() + begin, seen_.data() + end, report);
    begin = end;
  }
}

/// Rows of one text, those of a split one after the other.
void Inspection::compare_group(const Seen* begin, const Seen* end, InspectionReport& report) const {
  const auto keep = [&](std::vector<RowCouple>& examples, const Seen& a, const Seen& b) {
    if (examples.size() < kMostExamples) examples.push_back({place(a), place(b)});
  };
  for (const Seen* first = begin; first != end;) {
    const Seen* last = std::find_if(first, end, [&](const Seen& seen) { return seen.split != first->split; });
    DuplicateReport& duplicates = report.splits[first->split].duplicates;
    duplicates.repeated += last - first - 1;
    if (last - first > 1) keep(duplicates.examples, first[0], first[1]);
    const Seen* other =
        std::find_if(first, last, [&](const Seen& seen) { return seen.label != first->label; });
    if (other != last) {
      duplicates.conflicting += last - first;
      keep(duplicates.conflicts, *first, *other);
    }
    for (const Seen* earlier = begin; earlier != first;) {
      const Seen* next =
          std::find_if(earlier, first, [&](const Seen& seen) { return seen.split != earlier->split; });
      Leak& leak = *std::find_if(report.leaks.begin(), report.leaks.end(), [&](const Leak& candidate) {
        return candidate.from == report.splits[earlier->split].name &&
               candidate.into == report.splits[first->split].name;
      });
      leak.rows += last - first;
      leak.other_label +=
          std::count_if(first, last, [&](const Seen& seen) { return seen.label != earlier->label; });
      keep(leak.examples, *earlier, *first);
      earlier = next;
    }
    first = last;
  }
}

InspectionReport Inspection::finish() {
  InspectionReport report;
  report.splits = std::move(splits_);
  for (size_t i = 0; i < report.splits.size(); ++i) {
    SplitReport& split = report.splits[i];
    summarize(split.lengths, options_.max_length);
    summarize(split.labels, label_counts_[i], sums_of_squares_[i]);
    const auto& label = options_.data.label;
    if (!split.labels.are_numbers) {
      split.warnings =
          suspicious_labels(split.labels.counts, label.name, options_.shape == LabelShape::kItems);
    }
    for (size_t j = 0; j < i; ++j) {
      report.leaks.push_back({.from = report.splits[j].name, .into = split.name, .examples = {}});
    }
  }
  report.compared = static_cast<double>(largest_hash_) / static_cast<double>(UINT64_MAX);
  compare(report);
  std::erase_if(report.leaks, [](const Leak& leak) { return leak.rows == 0; });
  const auto scale = [&](int64_t& count) {
    count = std::llround(static_cast<double>(count) / report.compared);
  };
  for (SplitReport& split : report.splits) {
    scale(split.duplicates.repeated);
    scale(split.duplicates.conflicting);
  }
  for (Leak& leak : report.leaks) {
    scale(leak.rows);
    scale(leak.other_label);
  }
  if (report.splits.size() > 1 && !report.splits.front().labels.are_numbers &&
      report.splits.front().labels.complete) {
    const auto& known = label_counts_.front();
    for (size_t i = 1; i < report.splits.size() && !known.empty(); ++i) {
      std::vector<std::string> unseen;
      for (const auto& [name, count] : report.splits[i].labels.counts) {
        if (!known.contains(name)) unseen.push_back(shown(name));
      }
      if (unseen.empty()) continue;
      report.warnings.push_back(report.splits[i].name + " has labels that " + report.splits.front().name +
                                " has not: " + join_some(unseen) +
                                "; a model cannot answer them, and training refuses them");
    }
  }
  return report;
}

}  // namespace finetune
