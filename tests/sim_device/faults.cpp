#include <c10/util/Exception.h>

#include "state.h"

namespace finetune::sim {

void fail_on(Operation operation, int64_t number) {
  const Locked s;
  s->failures[static_cast<size_t>(operation)] = number;
}

void fail_if_asked(Operation operation, const std::string& what) {
  const Locked s;
  int64_t& left = s->failures[static_cast<size_t>(operation)];
  if (left == 0 || --left > 0) return;
  TORCH_CHECK_WITH(OutOfMemoryError, operation != Operation::kAllocation,
                   "sim: out of memory, as was asked for: ", what);
  TORCH_CHECK(false, "sim: failed, as was asked for: ", what);
}

}  // namespace finetune::sim
