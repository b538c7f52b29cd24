#include "watch.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <string>

namespace finetune::doctor {
namespace {

std::atomic<int64_t> launch_count{0};
std::atomic<int64_t> read_count{0};

/// An operator that is running, with the one that called it.
struct Running final : at::ObserverContext {
  Running* caller = nullptr;
  bool is_one = false;       ///< counts as one, whatever it calls
  bool inside_one = false;   ///< called, directly or not, by such an operator
  bool works = false;        ///< by its schema it may do work of its own
  bool called_work = false;  ///< an operator it called did
};
thread_local Running* innermost = nullptr;

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

bool may_work(const c10::FunctionSchema& schema) {
  const std::string& name = schema.name();
  for (const char* start :
       {"aten::empty", "aten::new_empty", "aten::resize", "aten::set_", "aten::result_type"}) {
    if (starts_with(name, start)) return false;
  }
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return false;  // a view
  }
  return true;
}

bool on_device(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cpu();
}
bool on_host(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu();
}

/// Ours, and those on lists of tensors: one launch on a GPU, though the CPU's kernels call others.
bool is_one(const std::string& name) {
  return starts_with(name, "finetune::") || starts_with(name, "aten::_foreach");
}

bool reads_device(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> inputs) {
  if (schema.name() == "aten::_local_scalar_dense") return !inputs.empty() && on_device(inputs[0]);
  if (schema.name() != "aten::copy_" || inputs.size() < 3) return false;
  const bool blocking = !(inputs[2].isBool() && inputs[2].toBool());
  return blocking && on_host(inputs[0]) && on_device(inputs[1]);
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  auto running = std::make_unique<Running>();
  if (const auto schema = function.operator_schema()) {
    running->works = may_work(*schema);
    running->is_one = is_one(schema->name());
    if (reads_device(*schema, function.inputs())) ++read_count;
  }
  running->caller = innermost;
  running->inside_one = innermost != nullptr && (innermost->inside_one || innermost->is_one);
  innermost = running.get();
  return running;
}

void leave(const at::RecordFunction&, at::ObserverContext* context) {
  auto* running = static_cast<Running*>(context);
  innermost = running->caller;
  if (running->inside_one) return;
  const bool worked = running->is_one || (running->works && !running->called_work);
  if (worked) ++launch_count;
  if (running->caller != nullptr && (worked || running->called_work)) running->caller->called_work = true;
}

}  // namespace

OperatorWatch::OperatorWatch() {
  launch_count = 0;
  read_count = 0;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(enter, leave).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

OperatorWatch::~OperatorWatch() { at::removeCallback(handle_); }

int64_t OperatorWatch::launches() const { return launch_count; }
int64_t OperatorWatch::host_reads() const { return read_count; }

class MemoryWatch::Ledger final : public c10::MemoryReportingInfoBase {
 public:
  explicit Ledger(c10::Device device) : device_(device) {}

  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (device != device_) return;
    const int64_t now = held_ += bytes;
    int64_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  c10::Device device_;
  std::atomic<int64_t> held_{0};
  std::atomic<int64_t> peak_{0};
};

MemoryWatch::MemoryWatch(c10::Device device)
    : ledger_(std::make_shared<Ledger>(device)),
      guard_(c10::DebugInfoKind::PROFILER_STATE, ledger_),
      log_level_(FLAGS_caffe2_log_level) {
  // LibTorch warns of each block that is freed and was not seen to be allocated; such blocks do not matter
  // here.
  FLAGS_caffe2_log_level = 2;
}

MemoryWatch::~MemoryWatch() { FLAGS_caffe2_log_level = log_level_; }

int64_t MemoryWatch::peak() const { return ledger_->peak(); }

}  // namespace finetune::doctor
