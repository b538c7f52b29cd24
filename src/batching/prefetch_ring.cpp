#include "prefetch_ring.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace finetune {
namespace {

/// Batches whose copies are under way while another is in use.
constexpr size_t kCopiesAhead = 2;

/// Where the parts of a batch lie in its bytes: an arena of its own rows alone.
struct Layout {
  int64_t row_offsets = 0;  ///< [B + 1] int64
  int64_t labels;           ///< [B, ...] or [P] of the dataset's type; nothing where it has none
  int64_t positions;        ///< [P] int64 into the N tokens, where rows have targets
  int64_t cu_seqlens;       ///< [B + 1] int32
  int64_t second_segments;  ///< [B] int32
  int64_t input_ids;        ///< [N] int32
  int64_t size;

  Layout(const BatchPlan& plan, const DeviceDataset& dataset) {
    constexpr int64_t kAlignment = 16;
    const auto behind = [](int64_t begin, int64_t bytes) {
      return (begin + bytes + kAlignment - 1) / kAlignment * kAlignment;
    };
    labels = behind(row_offsets, (plan.num_rows + 1) * 8);
    positions = behind(labels, num_labels(plan, dataset) * label_bytes(dataset.labels));
    cu_seqlens = behind(positions, plan.num_targets * 8);
    second_segments = behind(cu_seqlens, (plan.num_rows + 1) * 4);
    input_ids = behind(second_segments, plan.num_rows * 4);
    size = behind(input_ids, plan.num_tokens * 4);
  }

  static int64_t num_labels(const BatchPlan& plan, const DeviceDataset& dataset) {
    return dataset.has_targets() ? plan.num_targets : plan.num_rows;
  }

 private:
  /// Of one label, or of a row of them.
  static int64_t label_bytes(const at::Tensor& all_labels) {
    if (!all_labels.defined()) return 0;
    const int64_t width = all_labels.dim() > 1 ? all_labels.size(1) : 1;
    return width * static_cast<int64_t>(all_labels.element_size());
  }
};

at::Tensor part(const at::Tensor& bytes, int64_t begin, at::IntArrayRef sizes, at::ScalarType dtype) {
  const int64_t count = c10::multiply_integers(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
  return bytes.narrow(0, begin, count).view(dtype).view(sizes);
}

/// The labels within the bytes of a batch; undefined where the dataset has none.
at::Tensor labels_part(const at::Tensor& bytes, const Layout& layout, const BatchPlan& plan,
                       const DeviceDataset& dataset) {
  if (!dataset.labels.defined()) return {};
  std::vector<int64_t> sizes = dataset.labels.sizes().vec();
  sizes.front() = Layout::num_labels(plan, dataset);
  return part(bytes, layout.labels, sizes, dataset.labels.scalar_type());
}

/// Copies the targets of the rows of a batch: their positions in the batch, and their labels.
void collect_targets(const DeviceDataset& dataset, const int64_t* rows, const BatchPlan& plan,
                     const Layout& layout, uint8_t* out) {
  auto* labels = dataset.labels.defined() ? reinterpret_cast<int64_t*>(out + layout.labels) : nullptr;
  auto* positions = reinterpret_cast<int64_t*>(out + layout.positions);
  const auto* cu_seqlens = reinterpret_cast<const int32_t*>(out + layout.cu_seqlens);
  const auto* all_positions = dataset.target_positions.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < plan.num_rows; ++i) {
    const auto [first, last] = dataset.labels_of(rows[i], rows[i] + 1);
    for (int64_t target = first; target < last; ++target) {
      *positions++ = all_positions[target] + cu_seqlens[i];
      if (labels != nullptr) *labels++ = dataset.host_labels[static_cast<size_t>(target)];
    }
  }
}

/// Copies the rows of a batch out of the arena.
void collect(const DeviceDataset& dataset, const int64_t* rows, const BatchPlan& plan, const Layout& layout,
             const at::Tensor& bytes) {
  auto* out = bytes.mutable_data_ptr<uint8_t>();
  auto* row_offsets = reinterpret_cast<int64_t*>(out + layout.row_offsets);
  auto* cu_seqlens = reinterpret_cast<int32_t*>(out + layout.cu_seqlens);
  auto* second_segments = reinterpret_cast<int32_t*>(out + layout.second_segments);
  auto* input_ids = reinterpret_cast<int32_t*>(out + layout.input_ids);
  const auto* arena = dataset.input_ids.const_data_ptr<int32_t>();
  const auto* arena_offsets = dataset.row_offsets.const_data_ptr<int64_t>();
  const auto* arena_segments = dataset.second_segments.const_data_ptr<int32_t>();
  int64_t end = 0;
  row_offsets[0] = cu_seqlens[0] = 0;
  for (int64_t i = 0; i < plan.num_rows; ++i) {
    const auto length = static_cast<size_t>(dataset.lengths[static_cast<size_t>(rows[i])]);
    std::memcpy(input_ids + end, arena + arena_offsets[rows[i]], length * sizeof(int32_t));
    second_segments[i] = arena_segments[rows[i]];
    end += static_cast<int64_t>(length);
    row_offsets[i + 1] = end;
    cu_seqlens[i + 1] = static_cast<int32_t>(end);
  }
  if (dataset.has_targets()) {
    collect_targets(dataset, rows, plan, layout, out);
  } else if (dataset.labels.defined()) {
    at::Tensor labels = labels_part(bytes, layout, plan, dataset);
    at::index_select_out(labels, dataset.labels, 0,
                         at::from_blob(const_cast<int64_t*>(rows), {plan.num_rows}, at::kLong));
  }
}

std::optional<c10::Stream> new_stream(c10::Device device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

}  // namespace

PrefetchRing::PrefetchRing(const DeviceDataset& dataset, c10::Device device,
                           std::shared_ptr<EpochPlans> plans, Position first, int64_t num_slots)
    : dataset_(dataset),
      device_(device),
      copy_stream_(new_stream(device)),
      plans_(std::move(plans)),
      row_numbers_(at::arange(plans_->most_rows(), at::TensorOptions(at::kLong).device(device))),
      next_claim_(first),
      next_(first) {
  for (int64_t i = 0; i < num_slots; ++i)
    slots_.push_back({.staging = {}, .plan = {}, .copied = DeviceEvent(device)});
}

PrefetchRing::Position PrefetchRing::after(Position position) const {
  const auto plan = plans_->at(position.epoch);
  if (position.index + 1 < static_cast<int64_t>(plan->micro_batches.size())) {
    return {position.epoch, position.index + 1};
  }
  return {position.epoch + 1, 0};
}

std::optional<PrefetchRing::Ticket> PrefetchRing::claim() {
  const std::lock_guard lock(mutex_);
  Slot& next = slot(num_claimed_);
  if (closed_ || next.state != SlotState::kFree) return std::nullopt;
  next.state = SlotState::kFilling;
  const Ticket ticket{num_claimed_++, next_claim_};
  next_claim_ = after(next_claim_);
  return ticket;
}

void PrefetchRing::fill(const Ticket& ticket) {
  const auto plan = plans_->at(ticket.position.epoch);
  Slot& mine = slot(ticket.number);  // nobody else touches it until it is committed
  mine.plan = plan->micro_batches[static_cast<size_t>(ticket.position.index)];
  for (int64_t i = 0; dataset_.has_targets() && i < mine.plan.num_rows; ++i) {
    const int64_t row = plan->order[static_cast<size_t>(mine.plan.begin + i)];
    const auto [first_target, last_target] = dataset_.labels_of(row, row + 1);
    mine.plan.num_targets += last_target - first_target;
  }
  const Layout layout(mine.plan, dataset_);
  if (!mine.staging.defined() || mine.staging.numel() < layout.size) {
    mine.staging = staging_buffer({layout.size * 3 / 2}, at::kByte, device_);
  }
  collect(dataset_, plan->order.data() + mine.plan.begin, mine.plan, layout, mine.staging);
}

void PrefetchRing::commit(const Ticket& ticket) {
  {
    const std::lock_guard lock(mutex_);
    slot(ticket.number).state = SlotState::kFilled;
  }
  slot_filled_.notify_all();
  // Long before a worker needs it, so that none waits for it.
  if (ticket.position.index == 0) plans_->at(ticket.position.epoch + 1);
}

void PrefetchRing::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }
  slot_filled_.notify_all();
}

bool PrefetchRing::wait_for_slot() {
  std::unique_lock lock(mutex_);
  slot_free_.wait(lock, [this] { return closed_ || slot(num_claimed_).state == SlotState::kFree; });
  return !closed_;
}

void PrefetchRing::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  slot_free_.notify_all();
}

void PrefetchRing::free_copied_slots() {
  bool freed = false;
  for (Slot& slot : slots_) {
    if (slot.state != SlotState::kCopying || !slot.copied.reached()) continue;
    slot.state = SlotState::kFree;
    freed = true;
  }
  if (freed) slot_free_.notify_all();
}

bool PrefetchRing::ready() {
  const std::lock_guard lock(mutex_);
  free_copied_slots();
  return error_ || !uploads_.empty() || slot(num_copied_).state == SlotState::kFilled;
}

void PrefetchRing::start_copy(Slot& slot) {
  const c10::OptionalStreamGuard on(copy_stream_);
  const int64_t size = Layout(slot.plan, dataset_).size;
  Upload upload{.bytes = at::empty({size}, at::TensorOptions(at::kByte).device(device_)),
                .plan = slot.plan,
                .copied = DeviceEvent(device_)};
  upload.bytes.copy_(slot.staging.narrow(0, 0, size), /*non_blocking=*/true);
  upload.copied.record();
  slot.copied.record();
  slot.state = SlotState::kCopying;
  uploads_.push_back(std::move(upload));
}

void PrefetchRing::start_copies() {
  std::unique_lock lock(mutex_);
  free_copied_slots();
  while (uploads_.empty() && slot(num_copied_).state != SlotState::kFilled) {
    if (error_) std::rethrow_exception(error_);
    // A slot becomes free when its copy is over, which nobody but this thread looks after.
    slot_filled_.wait_for(lock, std::chrono::microseconds(200));
    free_copied_slots();
  }
  while (uploads_.size() <= kCopiesAhead && slot(num_copied_).state == SlotState::kFilled) {
    start_copy(slot(num_copied_));
    ++num_copied_;
  }
}

Batch PrefetchRing::take() {
  start_copies();
  const Upload upload = std::move(uploads_.front());
  uploads_.pop_front();
  next_ = after(next_);
  upload.copied.block();
  if (copy_stream_) {
    upload.bytes.record_stream(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  const BatchPlan& plan = upload.plan;
  const Layout layout(plan, dataset_);
  const auto int32s = [&](int64_t begin, int64_t count) {
    return part(upload.bytes, begin, {count}, at::kInt);
  };
  Batch batch = pack_rows(
      int32s(layout.input_ids, plan.num_tokens),
      part(upload.bytes, layout.row_offsets, {plan.num_rows + 1}, at::kLong),
      int32s(layout.second_segments, plan.num_rows), row_numbers_.narrow(0, 0, plan.num_rows),
      int32s(layout.cu_seqlens, plan.num_rows + 1), labels_part(upload.bytes, layout, plan, dataset_), plan);
  if (dataset_.has_targets()) {
    batch.positions = part(upload.bytes, layout.positions, {plan.num_targets}, at::kLong);
  }
  return batch;
}

}  // namespace finetune
