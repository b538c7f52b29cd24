#include "order.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "recording.h"

namespace finetune::sim {
namespace {

void land(const HostCopy& copy) {
  if (copy.staged.defined()) {
    std::memcpy(copy.host.data_ptr(), copy.staged.const_data_ptr(), copy.host.nbytes());
  } else if (checksum(copy.host) != copy.checksum) {
    violate(c10::str("pinned source of ", copy.host.nbytes(),
                     " bytes overwritten by the host before its copy on ", queue_name(copy.queue),
                     " was waited for"),
            /*may_throw=*/false);
  }
}

/// The report of a use of [begin, end) that conflicts with an earlier one, or "".
std::string race_with_earlier(const Block& block, size_t begin, size_t end, bool write, int queue,
                              const char* op) {
  const Clock& now = state().clocks[static_cast<size_t>(queue)];
  for (const Access& access : block.accesses) {
    const bool apart = access.begin >= end || begin >= access.end || !(access.write || write);
    if (apart || now[static_cast<size_t>(access.queue)] >= access.time) continue;
    return c10::str("race on ", describe(block), ": ", access.write ? "written" : "read", " on ",
                    queue_name(access.queue), " by ", access.op, ", then ", write ? "written" : "read",
                    " on ", queue_name(queue), " by ", op, " without a wait");
  }
  return "";
}

}  // namespace

void join(Clock& into, const Clock& from) {
  for (size_t queue = 0; queue < into.size(); ++queue) into[queue] = std::max(into[queue], from[queue]);
}

void violate(const std::string& text, bool may_throw) {
  const Locked s;
  s->violations.push_back(text);
  TORCH_CHECK(!may_throw || !s->throw_on_violation, "sim: ", text);
}

void note_access(Block& block, size_t begin, size_t end, bool write, int queue, const char* op) {
  const Locked s;
  const std::string race = race_with_earlier(block, begin, end, write, queue, op);
  std::erase_if(block.accesses, [&](const Access& access) {
    return begin <= access.begin && access.end <= end && (write || (access.queue == queue && !access.write));
  });
  const auto index = static_cast<size_t>(queue);
  block.accesses.push_back({begin, end, queue, s->clocks[index][index], write, op});
  if (write && !block.op) block.op = op;
  if (!race.empty()) violate(race);
}

uint64_t checksum(const at::Tensor& tensor) {
  return std::hash<std::string_view>{}({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()});
}

void land_copies(const Clock& known, const Block* only) {
  const Locked s;
  auto flying = std::move(s->in_flight);
  s->in_flight.clear();
  for (HostCopy& copy : flying) {
    const bool meant = !only || (copy.staged.defined() && copy.host.storage().data() == only->address);
    if (meant && known[static_cast<size_t>(copy.queue)] >= copy.time) {
      land(copy);
    } else {
      s->in_flight.push_back(std::move(copy));
    }
  }
}

void check_strict(int level, const char* what) {
  const bool forbidden = state().strict >= level && this_thread().reads_allowed == 0;
  if (!forbidden) return;
  const Locked s;
  TORCH_CHECK(false, "sim: the host waits for the device in ", what, ", inside strict section ",
              s->counters.strict_sections);
}

void host_waits_for(const Clock& clock) {
  const Locked s;
  ++s->counters.host_waits;
  join(s->host_clock, clock);
  land_copies(s->host_clock);
}

void host_reads(const char* op, int device) {
  refuse_while_recording(op);
  const Locked s;
  ++s->counters.host_reads;
  ++s->counters.reads[op];
  check_strict(StrictSection::kReads, op);
  host_waits_for(s->clocks[static_cast<size_t>(current_queue(device))]);
}

void host_syncs(const Clock& clock, const char* what) {
  refuse_while_recording(what);
  check_strict(StrictSection::kWaits, what);
  host_waits_for(clock);
}

StrictSection::StrictSection(Level level) : previous_(state().strict.exchange(level)) {
  const Locked s;
  ++s->counters.strict_sections;
}
StrictSection::~StrictSection() { state().strict = previous_; }

AllowHostReads::AllowHostReads() { ++this_thread().reads_allowed; }
AllowHostReads::~AllowHostReads() { --this_thread().reads_allowed; }

std::vector<std::string> take_violations() {
  const Locked s;
  return std::exchange(s->violations, {});
}

void throw_on_violation(bool on) {
  const Locked s;
  s->throw_on_violation = on;
}

}  // namespace finetune::sim
