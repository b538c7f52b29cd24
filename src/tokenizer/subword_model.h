#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "wordpiece_model.h"

namespace finetune {

/// Cuts a word into the pieces of a vocabulary. May be used from several threads.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the pieces of a word that is not empty; `begin` and `end` count its bytes. A byte that no piece
  /// covers is left out. Throws `DataError` where a word holds a character that the model has no piece for.
  virtual void append(std::string_view word, std::vector<Piece>& pieces) const = 0;
};

}  // namespace finetune
