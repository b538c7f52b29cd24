#include "recording.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <map>

namespace finetune::sim {
namespace {

struct Kept {
  Block* block;
  std::vector<char> contents;
};

/// What is being recorded.
struct Recorder {
  uint64_t first_serial;  ///< of the blocks that come about meanwhile
  std::vector<std::function<void()>> launches;
  std::map<uint64_t, Kept> kept;  ///< by the block's serial
};

Recorder* current = nullptr;  // guarded by State::mutex
RecordingCounts counts;       // likewise

void put_back(const Recorder& recorder) {
  const Locked s;
  for (const auto& [serial, kept] : recorder.kept) {
    const auto live = s->live.find(kept.block->address);
    if (live == s->live.end() || live->second->serial != serial) continue;  // freed meanwhile
    std::memcpy(kept.block->memory, kept.contents.data(), kept.contents.size());
  }
}

class Recording final : public RecordedWork {
 public:
  explicit Recording(std::vector<std::function<void()>> launches) : launches_(std::move(launches)) {}
  void replay() override {
    {
      const Locked s;
      ++counts.replayed;
    }
    for (const auto& launch : launches_) launch();
  }

 private:
  std::vector<std::function<void()>> launches_;
};

}  // namespace

std::unique_ptr<RecordedWork> record(const std::function<void()>& work) {
  Recorder recorder;
  {
    const Locked s;
    TORCH_CHECK(current == nullptr, "sim: something is being recorded already");
    recorder.first_serial = s->serial;
    current = &recorder;
  }
  const auto stop = [&] {
    const Locked s;
    current = nullptr;
    put_back(recorder);
  };
  try {
    work();
  } catch (...) {
    stop();
    throw;
  }
  stop();
  const Locked s;
  ++counts.made;
  return std::make_unique<Recording>(std::move(recorder.launches));
}

at::Tensor unattached(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      c10::VariableVersion(0), /*allow_tensor_metadata_change=*/false));
}

bool recording() {
  const Locked s;
  return current != nullptr;
}

void note_launch(std::function<void()> again) {
  const Locked s;
  if (current != nullptr) current->launches.push_back(std::move(again));
}

void keep_contents(Block& block) {
  const Locked s;
  if (current == nullptr || block.serial > current->first_serial || block.device < 0) return;
  const auto [kept, is_new] = current->kept.try_emplace(block.serial, Kept{&block, {}});
  if (is_new) kept->second.contents.assign(block.memory, block.memory + block.bytes);
}

void refuse_while_recording(const char* what) {
  TORCH_CHECK(!recording(), "sim: ", what, " cannot be recorded");
}

RecordingCounts take_recording_counts() {
  const Locked s;
  return std::exchange(counts, {});
}

}  // namespace finetune::sim
