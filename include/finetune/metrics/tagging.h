#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/metrics/classification.h"

namespace finetune {

/// A named span of a sentence: words [first, last].
struct Entity {
  std::string type;
  int64_t first = 0;
  int64_t last = 0;
  bool operator==(const Entity&) const = default;
};

/// The entities of a sentence's tags: seqeval 1.2.2's `get_entities`, the rules of conlleval. Tags are `O`,
/// or one of B, I, E, S, followed by a type.
std::vector<Entity> entities_of(const std::vector<std::string_view>& tags);

/// Whether entities can be read from tags of these names.
bool names_entities(const std::vector<std::string>& labels);

/// Metrics of words with tags. Besides what `ClassificationMeter` counts, each word's answer stays on the
/// device until the end: 8 bytes a word.
class TaggingMeter : public Meter {
 public:
  TaggingMeter(std::vector<std::string> names, int64_t ignore_index, c10::Device device);

  void begin(const DeviceDataset& rows) override;
  void add(const at::Tensor& loss_sum, const at::Tensor& logits, const at::Tensor& labels,
           double label_weight) override;

  /// Over all words, the answer for one without a token being `O`: `accuracy`, and where the names are those
  /// of entities `precision`, `recall`, `f1` and `per_type`, equal to seqeval's. Over the words with a token:
  /// `loss` and what else `ClassificationMeter` has.
  Json drain() override;

 private:
  std::vector<std::string> names_;
  int64_t ignore_index_;
  int64_t outside_;  ///< id of `O`, or -1
  ClassificationMeter words_;
  Collected answers_;            ///< [L] int64
  std::vector<int64_t> gold_;    ///< of every word, those without a token too
  std::vector<bool> has_token_;  ///< likewise
  std::vector<size_t> sentence_sizes_;
};

}  // namespace finetune
