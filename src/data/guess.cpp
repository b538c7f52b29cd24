#include "finetune/data/guess.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

#include "finetune/core/text.h"
#include "finetune/data/message.h"
#include "guess_items.h"
#include "usual_names.h"

namespace finetune {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kUsualPairs = {std::pair{"sentence1"sv, "sentence2"sv},
                                    std::pair{"sentence_1"sv, "sentence_2"sv},
                                    std::pair{"premise"sv, "hypothesis"sv},
                                    std::pair{"text"sv, "text_pair"sv},
                                    std::pair{"text_a"sv, "text_b"sv},
                                    std::pair{"text1"sv, "text2"sv},
                                    std::pair{"question1"sv, "question2"sv},
                                    std::pair{"question"sv, "sentence"sv},
                                    std::pair{"question"sv, "passage"sv},
                                    std::pair{"question"sv, "context"sv},
                                    std::pair{"question"sv, "answer"sv},
                                    std::pair{"query"sv, "passage"sv},
                                    std::pair{"query"sv, "document"sv},
                                    std::pair{"claim"sv, "evidence"sv},
                                    std::pair{"s1"sv, "s2"sv}};

/// "the column 'label'", "column 1".
std::string title(const ColumnProfile& column) {
  return "column " + (column.name.empty() ? std::to_string(column.index) : shown(column.name));
}

ColumnName name_of(const ColumnProfile& column) {
  if (column.name.empty()) return {"", column.index};
  return {column.name, {}};
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * share);
  return text;
}

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

double share_of(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// How much a column looks like a text: 0 where it cannot be one.
double text_score(const ColumnProfile& column) {
  if (column.strings == 0 || share_of(column.strings, column.present()) < 0.5) return 0;
  if (is_usual_id_name(column.name)) return 0;
  const double variety = column.values.overflowed()
                             ? 1.0
                             : share_of(static_cast<int64_t>(column.values.distinct()), column.strings);
  double score = std::min(column.mean_words(), 60.0) / 10 + variety;
  if (is_usual_name(column.name, /*label=*/false)) score += 4;
  // Texts of languages that write no blanks.
  const double bytes = static_cast<double>(column.bytes) / static_cast<double>(column.strings);
  if (column.mean_words() < 3 && bytes > 40) score += 1;
  if (is_usual_name(column.name, /*label=*/true)) score -= 4;
  return std::max(score, 0.01);
}

/// Whether a column holds one of few values.
bool has_few_values(const ColumnProfile& column) {
  if (column.values.overflowed() || column.values.distinct() < 2) return false;
  const auto distinct = static_cast<int64_t>(column.values.distinct());
  const int64_t rows = column.present();
  return distinct <= 20 ? distinct * 2 <= rows : distinct * 10 <= rows;
}

bool is_real_valued(const ColumnProfile& column) {
  return column.present() > 0 && share_of(column.numbers, column.present()) > 0.99 && column.fractions > 0 &&
         column.values.distinct() > 10;
}

/// How much a column looks like a label: 0 where it cannot be one.
double label_score(const ColumnProfile& column) {
  if (column.present() == 0 || is_usual_id_name(column.name)) return 0;
  const bool named = is_usual_name(column.name, /*label=*/true);
  const bool few = has_few_values(column);
  const bool lists = share_of(column.lists, column.present()) > 0.5;
  if (!named && !few && !is_real_valued(column) && !lists) return 0;
  double score = 0;
  if (named) score += 4;
  if (lower_ascii(column.name) == "label" || lower_ascii(column.name) == "labels") score += 2;
  if (few) score += 2;
  if (few && column.mean_words() < 3) score += 1;
  if (column.mean_words() > 8) score -= 3;
  if (is_usual_name(column.name, /*label=*/false)) score -= 4;
  if (share_of(column.empty, column.empty + column.present()) > 0.2) score -= 1;
  return std::max(score, 0.0);
}

class Guesser {
 public:
  Guesser(const TableProfile& table, const GuessHints& hints) : table_(table), hints_(hints) {}

  Guess guess() {
    say_layout();
    if (auto items = guess_items(table_)) {
      if (!hints_.task || *hints_.task == TaskType::kTokenClassification)
        return take_items(std::move(*items));
    }
    const ColumnProfile& label = find_label();
    find_texts(label);
    find_task(label);
    return std::move(guess_);
  }

 private:
  void say_layout() {
    guess_.data.format = table_.format;
    guess_.data.delimiter = table_.delimiter;
    if (table_.delimiter) {
      guess_.reasons.push_back("data.delimiter: " + shown(std::string_view(&*table_.delimiter, 1)) +
                               ", which gives every row the same number of fields");
    }
    const bool delimited = table_.format == DataFormat::kCsv || table_.format == DataFormat::kTsv;
    if (delimited && !table_.has_header) {
      guess_.data.header = HeaderMode::kAbsent;
      guess_.reasons.push_back(
          "data.header: false, because the first row holds a number, a sentence, or a value twice; columns "
          "have "
          "numbers from 0");
    }
  }

  Guess take_items(ItemGuess items) {
    guess_.task = TaskType::kTokenClassification;
    guess_.data.label_shape = LabelShape::kItems;
    guess_.data.text = items.text;
    guess_.data.tokens = items.tokens;
    guess_.data.fields = items.fields;
    guess_.data.positions = items.positions;
    guess_.data.label = hints_.label.value_or(items.label);
    guess_.reasons.push_back("task.type: token_classification, because " + items.reason);
    if (!items.doubt.empty()) guess_.doubts.push_back(items.doubt);
    const ColumnProfile* label = table_.find(guess_.data.label);
    if (label == nullptr) refuse("no column " + shown(guess_.data.label.name), "--label");
    count_labels(label->list_values);
    return std::move(guess_);
  }

  [[noreturn]] void refuse(const std::string& what, const char* flag) const {
    throw_data_error(
        table_.path, 0,
        what + "; the columns are " + shown_list(table_.names()) + ". Say it with " + flag + " NAME");
  }

  const ColumnProfile& asked_for(const ColumnName& name, const char* flag) const {
    const ColumnProfile* column = table_.find(name);
    if (column == nullptr) {
      const std::string text = name.index ? std::to_string(*name.index) : name.name;
      refuse("no column " + shown(text) + suggestion(text, table_.names()), flag);
    }
    return *column;
  }

  const ColumnProfile& find_label() {
    if (hints_.label) {
      const ColumnProfile& label = asked_for(*hints_.label, "--label");
      guess_.data.label = name_of(label);
      return label;
    }
    std::vector<std::pair<double, const ColumnProfile*>> found;
    for (const ColumnProfile& column : table_.columns) {
      if (hints_.text && table_.find(*hints_.text) == &column) continue;
      if (const double score = label_score(column); score > 0) found.emplace_back(score, &column);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (found.empty())
      refuse("no column looks like a label: none has few distinct values, or numbers", "--label");
    const ColumnProfile& label = *found.front().second;
    guess_.data.label = name_of(label);
    guess_.reasons.push_back("data.label: " + title(label) + ", " + why_label(label));
    if (found.size() > 1 && found[1].first > found[0].first - 1.5) {
      guess_.doubts.push_back("data.label may as well be " + title(*found[1].second) + ", " +
                              why_label(*found[1].second) + "; set data.label, or --label NAME");
    }
    return label;
  }

  static std::string why_label(const ColumnProfile& label) {
    if (label.lists > 0) return "which holds lists";
    const std::string values =
        label.values.overflowed()
            ? "more than " + with_thousands(static_cast<long long>(label.values.distinct()))
            : with_thousands(static_cast<long long>(label.values.distinct()));
    return "which has " + values + " different values in " + with_thousands(label.present()) + " rows" +
           (is_usual_name(label.name, true) ? " and a name that labels usually have" : "");
  }

  void find_texts(const ColumnProfile& label) {
    std::vector<std::pair<double, const ColumnProfile*>> found;
    for (const ColumnProfile& column : table_.columns) {
      if (&column == &label) continue;
      if (const double score = text_score(column); score > 0) found.emplace_back(score, &column);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (hints_.text || hints_.text_pair) return take_asked_texts(found);
    if (found.empty()) refuse("no column looks like a text", "--text");
    if (take_usual_pair(label)) return;
    const ColumnProfile& text = *found.front().second;
    guess_.data.text = name_of(text);
    guess_.reasons.push_back("data.text: " + title(text) + ", " + why_text(text));
    find_second_text(found);
  }

  void take_asked_texts(const std::vector<std::pair<double, const ColumnProfile*>>& found) {
    if (hints_.text) {
      guess_.data.text = name_of(asked_for(*hints_.text, "--text"));
    } else if (found.empty()) {
      refuse("no column looks like a text", "--text");
    } else {
      guess_.data.text = name_of(*found.front().second);
    }
    if (hints_.text_pair) guess_.data.text_pair = name_of(asked_for(*hints_.text_pair, "--text-pair"));
  }

  bool take_usual_pair(const ColumnProfile& label) {
    const auto named = [&](std::string_view name) -> const ColumnProfile* {
      for (const ColumnProfile& column : table_.columns) {
        if (lower_ascii(column.name) == name && column.strings > 0 && &column != &label) return &column;
      }
      return nullptr;
    };
    for (const auto& [first, second] : kUsualPairs) {
      const ColumnProfile* a = named(first);
      const ColumnProfile* b = named(second);
      if (a == nullptr || b == nullptr) continue;
      guess_.data.text = name_of(*a);
      guess_.data.text_pair = name_of(*b);
      guess_.reasons.push_back("data.text and data.text_pair: the columns " + shown(a->name) + " and " +
                               shown(b->name) + ", which are usual names of a pair");
      return true;
    }
    return false;
  }

  /// Another column of texts nearly as long as the first makes a pair.
  void find_second_text(const std::vector<std::pair<double, const ColumnProfile*>>& found) {
    const ColumnProfile& text = *found.front().second;
    for (size_t i = 1; i < found.size(); ++i) {
      const ColumnProfile& other = *found[i].second;
      const bool is_text = other.mean_words() >= 3 && !has_few_values(other);
      if (!is_text) continue;
      const bool similar = other.mean_words() * 3 > text.mean_words() && !is_usual_name(text.name, false);
      if (similar) {
        guess_.data.text_pair = name_of(other);
        guess_.reasons.push_back("data.text_pair: " + title(other) + ", " + why_text(other));
        guess_.doubts.push_back("two columns hold texts and are taken as a pair; where " + title(text) +
                                " alone decides, set data.text_pair to null");
      } else {
        guess_.doubts.push_back(title(other) + " holds texts too, " + why_text(other) +
                                "; where it matters, set data.text_pair to it");
      }
      return;
    }
  }

  static std::string why_text(const ColumnProfile& column) {
    return decimal(column.mean_words()) + " words on average" +
           (is_usual_name(column.name, false) ? ", a name that texts usually have" : "");
  }

  void find_task(const ColumnProfile& label) {
    guess_.task = hints_.task.value_or(task_of(label));
    guess_.data.label_shape = label_shape(guess_.task);
    if (guess_.task == TaskType::kRegression) return;
    if (guess_.task == TaskType::kMultiLabelClassification) {
      if (label.lists > 0) return count_labels(label.list_values);
      const size_t separator = separator_of(label).value_or(0);
      guess_.data.label_separator = ColumnProfile::kSeparators[separator];
      return count_labels(label.parts[separator]);
    }
    count_labels(label.values);
    if (label.empty > 0) {
      guess_.doubts.push_back(with_thousands(label.empty) + " rows have no label in " + title(label) +
                              "; training refuses them: fill them in, or remove the rows");
    }
    if (static_cast<int64_t>(label.values.distinct()) * 2 > label.present() && !label.values.overflowed()) {
      guess_.doubts.push_back("most values of " + title(label) +
                              " occur once; is it the label? Else set data.label");
    }
  }

  TaskType task_of(const ColumnProfile& label) {
    if (label.lists > 0) {
      guess_.reasons.push_back("task.type: multi_label_classification, because labels are lists");
      return TaskType::kMultiLabelClassification;
    }
    if (is_real_valued(label)) {
      guess_.reasons.push_back("task.type: regression, because labels are " +
                               with_thousands(static_cast<long long>(label.values.distinct())) +
                               " different numbers with fractions");
      return TaskType::kRegression;
    }
    if (const auto separator = separator_of(label)) {
      const char mark = ColumnProfile::kSeparators[*separator];
      guess_.reasons.push_back("task.type: multi_label_classification, because " +
                               percent(share_of(label.separated[*separator], label.strings)) +
                               " of the labels hold " + shown(std::string_view(&mark, 1)) + ", between " +
                               with_thousands(static_cast<long long>(label.parts[*separator].distinct())) +
                               " different parts");
      guess_.doubts.push_back(
          "where such a label is one class, set task.type to sequence_classification (data.label_separator "
          "goes with multi_label_classification only)");
      return TaskType::kMultiLabelClassification;
    }
    const bool numbers = label.numbers == label.present();
    guess_.reasons.push_back("task.type: sequence_classification, because each row has one of few values");
    if (numbers && label.values.distinct() > 2) {
      guess_.doubts.push_back(
          "the labels are numbers; where their order matters (stars, scores), set task.type to regression");
    }
    return TaskType::kSequenceClassification;
  }

  /// What separates several classes in a field: some labels hold it, its parts are few, and there are more
  /// combinations than parts.
  static std::optional<size_t> separator_of(const ColumnProfile& label) {
    if (label.strings == 0 || label.values.distinct() < 3) return std::nullopt;
    for (size_t i = 0; i < ColumnProfile::kSeparators.size(); ++i) {
      const ValueCounts& parts = label.parts[i];
      const bool often = share_of(label.separated[i], label.strings) > 0.05;
      const bool repeated = static_cast<int64_t>(parts.distinct()) * 5 <= label.strings;
      if (often && repeated && !parts.overflowed() && parts.distinct() < label.values.distinct()) return i;
    }
    return std::nullopt;
  }

  void count_labels(const ValueCounts& counts) {
    guess_.labels = counts.sorted();
    guess_.has_all_labels = !counts.overflowed();
  }

  const TableProfile& table_;
  const GuessHints& hints_;
  Guess guess_;
};

}  // namespace

Guess guess_data(const TableProfile& table, const GuessHints& hints) { return Guesser(table, hints).guess(); }

}  // namespace finetune
