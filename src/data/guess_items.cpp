#include "guess_items.h"

#include <algorithm>
#include <vector>

#include "finetune/core/text.h"
#include "finetune/data/message.h"
#include "usual_names.h"

namespace finetune {
namespace {

bool is_list(const ColumnProfile& column) {
  return column.lists > 0 && column.lists * 10 > column.present() * 9;
}

/// Different items for each of them; many: what was counted stops.
double variety(const ColumnProfile& column) {
  if (column.list_items == 0) return 1;
  return static_cast<double>(column.list_values.distinct()) / static_cast<double>(column.list_items);
}

bool looks_like_tags(const ColumnProfile& column) {
  return column.list_items > 0 && !column.list_values.overflowed() && column.list_values.distinct() >= 2;
}

/// A pair of lists that go together: items, and a label for each.
struct ListPair {
  const ColumnProfile* items = nullptr;
  const ColumnProfile* labels = nullptr;
};

std::optional<ListPair> find_lists(const TableProfile& table) {
  std::optional<ListPair> best;
  for (const ColumnProfile& items : table.columns) {
    for (const ColumnProfile& labels : table.columns) {
      if (&items == &labels || !is_list(items) || !is_list(labels) || !looks_like_tags(labels)) continue;
      if (table.same_length[items.index][labels.index] < std::min(items.lists, labels.lists)) continue;
      const bool named = is_usual_name(labels.name, true) || labels.name.find("tag") != std::string::npos;
      const bool items_named = is_usual_name(items.name, true) || items.name.find("tag") != std::string::npos;
      if (items_named && !named) continue;
      if (named == items_named && variety(labels) >= variety(items)) continue;
      // Several columns of tags: the one with the most usual name, then the one that distinguishes least.
      const bool better = !best || (named && !is_usual_name(best->labels->name, true) &&
                                    variety(labels) < variety(*best->labels));
      if (better) best = ListPair{&items, &labels};
    }
  }
  return best;
}

const ColumnProfile* find_text(const TableProfile& table) {
  const ColumnProfile* best = nullptr;
  for (const ColumnProfile& column : table.columns) {
    if (column.strings * 10 < table.num_rows * 9 || is_usual_id_name(column.name)) continue;
    if (best == nullptr || column.bytes > best->bytes) best = &column;
  }
  return best;
}

}  // namespace

std::optional<ItemGuess> guess_items(const TableProfile& table) {
  if (table.same_length.empty()) return std::nullopt;
  const auto lists = find_lists(table);
  if (!lists) return std::nullopt;
  const auto& [items, labels] = *lists;
  const ColumnName items_name{items->name, {}};
  ItemGuess guess;
  guess.label = {labels->name, {}};
  const std::string beside = "the lists " + shown(items->name) + " and " + shown(labels->name) +
                             " have the same length in every row, the labels " +
                             with_thousands(static_cast<long long>(labels->list_values.distinct())) +
                             " different ones";
  const ColumnProfile* text = find_text(table);
  if (items->list_whole_numbers == items->list_items && text != nullptr) {
    guess.text = {text->name, {}};
    guess.positions = items_name;
    guess.reason = beside + ", and " + shown(items->name) + " holds places in " + shown(text->name);
    guess.doubt =
        "places are taken as tokens of the encoded row; where they count characters, set "
        "data.position_unit to \"characters\"";
    return guess;
  }
  const bool words = items->list_words < items->list_items + items->list_items / 10;
  const bool text_of_words = text != nullptr && text->words > 0 && items->list_words > text->words / 2;
  if (text == nullptr || (words && text_of_words)) {
    guess.tokens = items_name;
    guess.reason = table.format == DataFormat::kConll
                       ? std::string("it is a CoNLL file: a word and its tag a line")
                       : beside;
    return guess;
  }
  guess.text = {text->name, {}};
  guess.fields = items_name;
  guess.reason = beside + ", and there is a text, " + shown(text->name) + ", that " + shown(items->name) +
                 " are the fields of (data.fields)";
  guess.doubt = "where " + shown(items->name) + " are a sentence's words, set data.tokens to " +
                shown(items->name) + " and unset data.fields";
  return guess;
}

}  // namespace finetune
