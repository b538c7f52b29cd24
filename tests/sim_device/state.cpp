#include "state.h"

#include <c10/util/StringUtil.h>

namespace finetune::sim {

State& state() {
  static State& instance = *new State;
  return instance;
}

ThreadState& this_thread() {
  thread_local ThreadState thread;
  return thread;
}

std::string queue_name(int queue) {
  return c10::str("stream ", queue % kStreams, " of sim:", queue / kStreams);
}

std::string describe(const Block& block) {
  const std::string place = block.device < 0 ? "" : c10::str(" on sim:", block.device);
  const std::string maker = block.op ? c10::str(", made by ", block.op) : "";
  return c10::str(block.device < 0 ? "pinned buffer #" : "storage #", block.serial, " (", block.bytes,
                  " bytes", place, maker, ")");
}

Counters counters() {
  const Locked s;
  Counters result = s->counters;
  for (const auto& [op, number] : s->launches) result.launches[op] += number;
  return result;
}

void reset_counters() {
  const Locked s;
  s->counters = {};
  s->launches.clear();
}

}  // namespace finetune::sim
