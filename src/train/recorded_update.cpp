#include "recorded_update.h"

#include <c10/util/Exception.h>

#include "finetune/core/log.h"

namespace finetune {
namespace {

/// Recordings take some memory each; rows of very mixed lengths go on without new ones.
constexpr size_t kMostShapes = 64;

}  // namespace

RecordedUpdate::RecordedUpdate(Update& update, const OpenDevice& device, bool wanted, int64_t ignore_index)
    : update_(update), device_(device), on_(wanted), ignore_index_(ignore_index) {}

void RecordedUpdate::stop(const std::string& reason) {
  if (!on_) return;
  on_ = false;
  passes_.clear();
  apply_.reset();
  spdlog::info("train.cuda_graphs: steps are launched piece by piece, for {}", reason);
}

void RecordedUpdate::forget() {
  passes_.clear();
  apply_.reset();
  applied_ = false;
}

std::unique_ptr<RecordedWork> RecordedUpdate::record(const std::function<void()>& work) {
  try {
    auto recorded = device_.services->record(device_.device, work);
    if (!recorded) stop("this device records no work");
    return recorded;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    stop(std::string("recording one failed: ") + error.what_without_backtrace());
    return nullptr;
  }
}

void RecordedUpdate::accumulate(const Batch& batch, int64_t most_rows) {
  if (on_ && batch.labels.scalar_type() != c10::ScalarType::Long) stop("labels that are no classes");
  if (!on_) return update_.backward(update_.forward(batch));
  const BatchShape shape = bucket_of(batch, most_rows);
  const auto known = passes_.find(shape);
  if (known != passes_.end()) return repeat(known->second, batch);
  // Filled up like all others of its shape, so that a resumed run gives the same numbers.
  StaticBatch inputs(shape, ignore_index_, device_.device);
  inputs.load(batch);
  update_.backward(update_.forward(inputs.batch()));
  if (passes_.size() < kMostShapes) passes_.emplace(shape, Pass{std::move(inputs), nullptr});
}

void RecordedUpdate::repeat(Pass& pass, const Batch& batch) {
  pass.inputs.load(batch);
  if (!pass.work) {
    const Batch inputs = pass.inputs.batch();
    auto work = record([&] { update_.backward(update_.forward(inputs)); });
    if (!work) return update_.backward(update_.forward(inputs));  // `pass` is gone
    pass.work = std::move(work);
  }
  pass.work->replay();
}

void RecordedUpdate::apply() {
  if (on_ && applied_ && !apply_) apply_ = record([&] { update_.apply(); });
  if (apply_) {
    apply_->replay();
  } else {
    update_.apply();
    applied_ = true;
  }
}

}  // namespace finetune
