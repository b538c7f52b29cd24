#include "fallback.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>

#include "generator.h"
#include "kernel.h"
#include "order.h"
#include "recording.h"

namespace finetune::sim {
namespace {

using at::Tensor;

/// What the launch of an operator has to know, read off its schema once.
struct OpInfo {
  std::string name;
  std::vector<Kernel::Use> uses;
  int generator = -1;  ///< index of its generator argument
  bool random = false;
  bool reads = false;     ///< the host needs a value or a size that the kernel computes
  bool masked = false;    ///< as above, if an index is a mask
  bool metadata = false;  ///< touches no bytes
};

bool is_number(const c10::TypePtr& type) {
  const auto kind = type->kind();
  return kind == c10::TypeKind::NumberType || kind == c10::TypeKind::IntType ||
         kind == c10::TypeKind::FloatType || kind == c10::TypeKind::BoolType;
}

OpInfo read_schema(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpInfo info;
  info.name = c10::toString(schema.operator_name());
  info.random = op.hasTag(at::Tag::nondeterministic_seeded);
  const bool index = info.name.find("index") != std::string::npos;
  info.reads =
      op.hasTag(at::Tag::data_dependent_output) || (op.hasTag(at::Tag::dynamic_output_shape) && !index);
  bool view = !schema.returns().empty();
  for (const auto& result : schema.returns()) {
    view &= result.alias_info() && !result.alias_info()->isWrite();
    info.reads |= is_number(result.type());
  }
  const bool host_only = info.name == "aten::_fused_sdp_choice" || info.name == "aten::is_set_to";
  if (host_only) {
    info.reads = false;
    view = true;
  }
  info.metadata = view || info.name.starts_with("aten::set_") || info.name.starts_with("aten::resize_");
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    const bool writes = argument.alias_info() && argument.alias_info()->isWrite();
    info.uses.push_back(info.metadata ? Kernel::kNone : writes ? Kernel::kWrite : Kernel::kRead);
    info.masked |= index && argument.name() == "indices";
    if (argument.name() == "generator") info.generator = static_cast<int>(i);
  }
  return info;
}

const OpInfo& info_of(const c10::OperatorHandle& op) {
  static auto& known = *new std::unordered_map<const c10::FunctionSchema*, OpInfo>;
  const Locked s;
  const auto [entry, is_new] = known.try_emplace(&op.schema());
  if (is_new) entry->second = read_schema(op);
  return entry->second;
}

/// Replaces every tensor in `value`, alone or in a list, by `f` of it.
template <class F>
void replace_tensors(c10::IValue& value, F f) {
  if (value.isTensor()) {
    value = f(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(f(tensor));
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (std::optional<Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor) tensor = f(*tensor);
      list.push_back(std::move(tensor));
    }
    value = std::move(list);
  }
}

int device_of_operands(c10::ArrayRef<c10::IValue> values, const std::string& name) {
  int device = -1;
  const auto look = [&](const Tensor& tensor) {
    if (device < 0 && tensor.defined() && tensor.is_privateuseone()) device = tensor.device().index();
    return tensor;
  };
  for (c10::IValue value : values) {
    replace_tensors(value, look);
    if (value.isDevice() && value.toDevice().is_privateuseone()) device = index_of(value.toDevice());
    if (value.isStorage() && value.toStorage().device_type() == c10::kPrivateUse1) {
      device = value.toStorage().device().index();
    }
    if (device >= 0) return device;
  }
  TORCH_CHECK(false, "sim: ", name, " has no operand on the device");
}

/// Puts what the CPU kernel is to see in the place of each argument. Returns whether one of the indices is a
/// mask.
bool map_arguments(const OpInfo& info, int device, Kernel& kernel, c10::IValue* arguments) {
  bool has_mask = false;
  for (size_t i = 0; i < info.uses.size(); ++i) {
    c10::IValue& value = arguments[i];
    const bool optional_list = value.isOptionalTensorList();
    replace_tensors(value, [&](const Tensor& tensor) {
      const auto type = tensor.defined() ? tensor.scalar_type() : at::kFloat;
      has_mask |= optional_list && (type == at::kBool || type == at::kByte);
      return kernel.map(tensor, info.uses[i]);
    });
    if (value.isStorage()) {
      value = kernel.map(value.toStorage());
    } else if (value.isGenerator() && value.toGenerator().device().is_privateuseone()) {
      value = cpu_generator(value.toGenerator());
    } else if (value.isNone() && static_cast<int>(i) == info.generator) {
      value = cpu_generator(state().devices[static_cast<size_t>(device)].generator);
    } else if (value.isDevice()) {
      value = c10::Device(c10::kCPU);
    }
  }
  return has_mask;
}

/// The same values, free of the graph that autograd hangs on their tensors.
std::vector<c10::IValue> without_graph(c10::ArrayRef<c10::IValue> values) {
  std::vector<c10::IValue> result(values.begin(), values.end());
  for (c10::IValue& value : result) replace_tensors(value, unattached);
  return result;
}

/// Launches an operator again and puts its results where they were put then.
void repeat(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments,
            const std::vector<c10::IValue>& results) {
  torch::jit::Stack stack(arguments);
  run_on_device(op, &stack);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<Tensor> then;
    c10::IValue recorded = results[i];
    replace_tensors(recorded, [&](const Tensor& tensor) { return then.emplace_back(tensor); });
    auto target = then.begin();
    replace_tensors(stack[i], [&](const Tensor& fresh) {
      const Tensor& to = *target++;
      if (fresh.defined() && !fresh.is_alias_of(to)) to.copy_(fresh);
      return fresh;
    });
  }
}

}  // namespace

void run_on_device(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OpInfo& info = info_of(op);
  c10::IValue* arguments = stack->data() + stack->size() - info.uses.size();
  std::vector<c10::IValue> recorded;
  if (recording() && !info.metadata)
    recorded = without_graph(c10::ArrayRef<c10::IValue>(arguments, info.uses.size()));
  const int device = device_of_operands(c10::ArrayRef<c10::IValue>(arguments, info.uses.size()), info.name);
  Kernel kernel(info.name.c_str(), sim_device(device));
  const bool has_mask = map_arguments(info, device, kernel, arguments);
  if (info.reads || (info.masked && has_mask)) host_reads(info.name.c_str(), device);
  TORCH_CHECK(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "sim: ", info.name,
              " has no CPU kernel");
  kernel.launch(info.metadata ? Kernel::Work::kMetadata : Kernel::Work::kKernel);
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    std::optional<BorrowedGenerator> borrowed;
    if (info.random && info.generator < 0) borrowed.emplace(device);
    op.redispatchBoxed(kCpuKeys, stack);
  }
  kernel.finish();
  const size_t num_returns = op.schema().returns().size();
  for (size_t i = stack->size() - num_returns; i < stack->size(); ++i) {
    replace_tensors((*stack)[i], [&](const Tensor& tensor) { return kernel.wrap(tensor); });
  }
  if (recorded.empty()) return;
  note_launch([op, recorded,
               results = without_graph(
                   c10::ArrayRef<c10::IValue>(stack->data() + stack->size() - num_returns, num_returns))] {
    repeat(op, recorded, results);
  });
}

}  // namespace finetune::sim
