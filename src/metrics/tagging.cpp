#include "finetune/metrics/tagging.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace finetune {
namespace {

struct Tag {
  char mark = 'O';
  std::string_view type;
};

Tag parse(std::string_view tag) {
  std::string_view rest = tag.substr(1);
  const size_t dash = rest.find('-');
  if (dash != std::string_view::npos) rest.remove_prefix(dash + 1);
  return {tag[0], rest.empty() ? std::string_view("_") : rest};
}

bool ends_between(const Tag& previous, const Tag& next) {
  if (previous.mark == 'E' || previous.mark == 'S') return true;
  const bool open = previous.mark == 'B' || previous.mark == 'I';
  if (open && (next.mark == 'B' || next.mark == 'S' || next.mark == 'O')) return true;
  return previous.mark != 'O' && previous.mark != '.' && previous.type != next.type;
}

bool starts_at(const Tag& previous, const Tag& next) {
  if (next.mark == 'B' || next.mark == 'S') return true;
  const bool closed = previous.mark == 'E' || previous.mark == 'S' || previous.mark == 'O';
  if (closed && (next.mark == 'E' || next.mark == 'I')) return true;
  return next.mark != 'O' && next.mark != '.' && previous.type != next.type;
}

using Span = std::tuple<std::string, size_t, int64_t, int64_t>;

}  // namespace

std::vector<Entity> entities_of(const std::vector<std::string_view>& tags) {
  std::vector<Entity> entities;
  Tag previous;
  int64_t begin = 0;
  for (size_t i = 0; i <= tags.size(); ++i) {
    const Tag next = parse(i < tags.size() ? tags[i] : "O");
    const auto place = static_cast<int64_t>(i);
    if (ends_between(previous, next)) entities.push_back({std::string(previous.type), begin, place - 1});
    if (starts_at(previous, next)) begin = place;
    previous = next;
  }
  return entities;
}

bool names_entities(const std::vector<std::string>& labels) {
  bool any = false;
  for (const std::string& label : labels) {
    if (label == "O") continue;
    if (std::string_view("BIES").find(label[0]) == std::string_view::npos) return false;
    if (label.size() > 1 && label[1] != '-') return false;
    any = true;
  }
  return any;
}

TaggingMeter::TaggingMeter(std::vector<std::string> names, int64_t ignore_index, c10::Device device)
    : names_(std::move(names)),
      ignore_index_(ignore_index),
      outside_(std::find(names_.begin(), names_.end(), "O") - names_.begin()),
      words_(static_cast<int64_t>(names_.size()), ignore_index, device, names_) {
  if (outside_ == static_cast<int64_t>(names_.size())) outside_ = -1;
}

void TaggingMeter::begin(const DeviceDataset& rows) {
  gold_.insert(gold_.end(), rows.item_labels.begin(), rows.item_labels.end());
  for (const int32_t position : rows.item_positions) has_token_.push_back(position >= 0);
  for (size_t row = 0; row + 1 < rows.item_offsets.size(); ++row)
    sentence_sizes_.push_back(static_cast<size_t>(rows.item_offsets[row + 1] - rows.item_offsets[row]));
}

void TaggingMeter::add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
                       double label_weight) {
  const at::NoGradGuard no_grad;
  words_.add(loss_sum, logits, labels, label_weight);
  answers_.add(logits.argmax(-1));
}

Json TaggingMeter::drain() {
  Json result = words_.drain();
  const at::Tensor answers = answers_.drain();
  const int64_t* answer = answers.defined() ? answers.const_data_ptr<int64_t>() : nullptr;
  const bool entities = names_entities(names_);
  int64_t num_words = 0, num_right = 0;
  std::set<Span> found, there;
  size_t word = 0;
  for (size_t sentence = 0; sentence < sentence_sizes_.size(); ++sentence) {
    std::vector<std::string_view> said, right;
    for (size_t i = 0; i < sentence_sizes_[sentence]; ++i, ++word) {
      const int64_t id = has_token_[word] ? *answer++ : outside_;
      if (gold_[word] == ignore_index_) continue;
      ++num_words;
      num_right += id == gold_[word] ? 1 : 0;
      said.push_back(id < 0 ? "O" : std::string_view(names_[static_cast<size_t>(id)]));
      right.push_back(names_[static_cast<size_t>(gold_[word])]);
    }
    if (!entities) continue;
    for (const Entity& e : entities_of(said)) found.emplace(e.type, sentence, e.first, e.last);
    for (const Entity& e : entities_of(right)) there.emplace(e.type, sentence, e.first, e.last);
  }
  result["accuracy"] = num_words > 0 ? static_cast<double>(num_right) / static_cast<double>(num_words) : 0.0;
  if (!entities) return result;

  std::map<std::string, ClassCounts> types;
  for (const Span& span : found) {
    ++types[std::get<0>(span)].predicted;
    if (there.contains(span)) ++types[std::get<0>(span)].hits;
  }
  for (const Span& span : there) ++types[std::get<0>(span)].gold;
  ClassCounts all;
  for (const auto& [type, counts] : types)
    all = {all.hits + counts.hits, all.predicted + counts.predicted, all.gold + counts.gold};
  Json total = class_scores(all.hits, all.predicted, all.gold);
  for (const char* name : {"precision", "recall", "f1"}) result[name] = total.at(name);
  result["per_type"] = Json::object();
  for (const auto& [type, counts] : types)
    result["per_type"][type] = class_scores(counts.hits, counts.predicted, counts.gold);
  return result;
}

}  // namespace finetune
