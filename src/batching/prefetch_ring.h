#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "epoch_plan.h"
#include "finetune/device/transfer.h"

namespace finetune {

/// Batches on their way from a dataset on the host to the device, in the order in which they are wanted.
///
/// Batch n of the sequence goes through slot n % num_slots, a piece of pinned memory:
///
///     free -> claim() -> filling -> fill(), commit() -> filled -> take() -> copying -> copy is over -> free
///
/// Workers claim, fill and commit, several at a time. One thread takes; it alone touches the device. What
/// comes out depends on nothing that the threads' timing decides.
class PrefetchRing {
 public:
  struct Position {
    int64_t epoch = 0;
    int64_t index = 0;  ///< of the micro-batch in its epoch
    bool operator==(const Position&) const = default;
  };

  /// A slot in a worker's hands.
  struct Ticket {
    int64_t number;  ///< of the batch in the sequence
    Position position;
  };

  /// The sequence begins at `first`. `dataset` lies on the CPU; it must outlive the ring.
  PrefetchRing(const DeviceDataset& dataset, c10::Device device, std::shared_ptr<EpochPlans> plans,
               Position first, int64_t num_slots);

  /// A worker's part. `claim`: the next batch, or nothing where its slot is not free yet.
  std::optional<Ticket> claim();
  void fill(const Ticket& ticket);
  void commit(const Ticket& ticket);
  /// Makes the next `take` throw what stopped a worker.
  void fail(std::exception_ptr error);
  /// Waits until `claim` has something. False once the ring is closed.
  bool wait_for_slot();
  void close();

  /// The position of the batch that `take` gives next.
  Position next() const { return next_; }
  /// Whether `take` would not wait.
  bool ready();
  /// The next batch on the device, usable on the current stream; starts the copies of the following ones.
  /// Waits for a worker where the batch is not filled yet, never for the device.
  Batch take();

 private:
  enum class SlotState { kFree, kFilling, kFilled, kCopying };
  struct Slot {
    SlotState state = SlotState::kFree;
    at::Tensor staging;  ///< [capacity] uint8, pinned
    BatchPlan plan;
    DeviceEvent copied;
  };
  /// A batch whose copy has begun.
  struct Upload {
    at::Tensor bytes;  ///< [size] uint8 on the device
    BatchPlan plan;
    DeviceEvent copied;
  };

  Slot& slot(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }
  void free_copied_slots();
  void start_copies();
  void start_copy(Slot& slot);
  Position after(Position position) const;

  const DeviceDataset& dataset_;
  c10::Device device_;
  std::optional<c10::Stream> copy_stream_;  ///< none on the CPU
  std::shared_ptr<EpochPlans> plans_;
  at::Tensor row_numbers_;  ///< [most rows of a batch] int64 on the device: 0, 1, ...

  std::mutex mutex_;
  std::condition_variable slot_free_, slot_filled_;
  std::vector<Slot> slots_;
  Position next_claim_;
  int64_t num_claimed_ = 0;
  bool closed_ = false;
  std::exception_ptr error_;

  // Of the thread that takes.
  Position next_;
  int64_t num_copied_ = 0;
  std::deque<Upload> uploads_;
};

}  // namespace finetune
