#include "finetune/device/plugin.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "finetune/kernels/ops.h"

namespace finetune {
namespace {

bool has_kernel(const std::string& name, c10::DispatchKey key) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  return op && op->hasKernelForDispatchKey(key);
}

bool has_cuda_kernel(const std::string& name) { return has_kernel(name, c10::DispatchKey::CUDA); }

/// Operators of this program that the CPU has.
std::vector<std::string> own_operators() {
  std::vector<std::string> names;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    if (op.name.rfind("finetune::", 0) == 0 && has_kernel(op.name, c10::DispatchKey::CPU)) {
      names.push_back(op.name);
    }
  }
  return names;
}

void* load_plugin() { return ::dlopen(FINETUNE_PLUGIN_FILE, RTLD_NOW | RTLD_GLOBAL); }

/// Runs the CPU's kernel, which also makes the linker keep the operators' schemas.
int64_t tokens_gathered_on_the_cpu() {
  const auto lengths = at::tensor({0, 2}, at::kInt);
  const auto [input_ids, types, positions, keys] = kernels::gather_batch(
      at::tensor({7, 8}, at::kInt), at::tensor({0, 2}, at::kLong), at::tensor({2}, at::kInt),
      at::tensor({0}, at::kLong), lengths, /*num_tokens=*/2, /*first_row=*/0);
  return input_ids.numel();
}

TEST(CudaPlugin, LoadingRegistersItsKernelsAndLibTorchs) {
  EXPECT_EQ(tokens_gathered_on_the_cpu(), 2);
  EXPECT_FALSE(has_cuda_kernel("finetune::gather_batch"));
  EXPECT_FALSE(has_cuda_kernel("aten::addmm"));
  ASSERT_NE(load_plugin(), nullptr) << ::dlerror();
  EXPECT_TRUE(has_cuda_kernel("finetune::gather_batch"));
  EXPECT_TRUE(has_cuda_kernel("aten::addmm"));
}

TEST(CudaPlugin, HasEveryOperatorThatTheCpuHas) {
  EXPECT_EQ(tokens_gathered_on_the_cpu(), 2);
  ASSERT_NE(load_plugin(), nullptr) << ::dlerror();
  const std::vector<std::string> names = own_operators();
  EXPECT_GE(names.size(), 15u);
  for (const std::string& name : names) EXPECT_TRUE(has_cuda_kernel(name)) << name;
}

TEST(CudaPlugin, LeavesTheCpuKernelInPlace) {
  ASSERT_NE(load_plugin(), nullptr) << ::dlerror();
  const auto [input_ids, token_type_ids, position_ids, token_keys] = kernels::gather_batch(
      at::tensor({7, 8, 9}, at::kInt), at::tensor({0, 1, 3}, at::kLong), at::tensor({1, 1}, at::kInt),
      at::tensor({1, 0}, at::kLong), at::tensor({0, 2, 3}, at::kInt), /*num_tokens=*/3, /*first_row=*/0);
  EXPECT_TRUE(at::equal(input_ids, at::tensor({8, 9, 7}, at::kInt)));
  EXPECT_TRUE(at::equal(token_type_ids, at::tensor({0, 1, 0}, at::kInt)));
}

TEST(CudaPlugin, EntryGivesServicesOrAReason) {
  void* library = load_plugin();
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto entry = reinterpret_cast<DevicePluginEntry>(::dlsym(library, "finetune_device_plugin"));
  ASSERT_NE(entry, nullptr);
  const char* why_not = nullptr;
  const DevicePlugin* plugin = entry(&why_not);
  if (plugin == nullptr) {
    ASSERT_NE(why_not, nullptr);
    EXPECT_NE(std::string(why_not).find("NVIDIA"), std::string::npos) << why_not;
  } else {
    EXPECT_GT(plugin->num_devices, 0);
    EXPECT_FALSE(plugin->services->describe(c10::Device(c10::kCUDA, 0)).empty());
  }
}

}  // namespace
}  // namespace finetune
