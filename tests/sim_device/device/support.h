#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "sim_device.h"

namespace finetune::sim {

/// A static `c10::Device("sim:0")` might be read before the name is registered; the type never is.
inline const c10::Device kSim(c10::kPrivateUse1, 0);
inline const c10::Device kSim1(c10::kPrivateUse1, 1);
inline const at::TensorOptions kOnSim = at::TensorOptions().device(kSim);
constexpr int64_t kMiB = 1 << 20;

// LibTorch's device-neutral interface to streams.
inline c10::impl::VirtualGuardImpl api() { return c10::impl::VirtualGuardImpl(at::kPrivateUse1); }
inline c10::Stream main_stream(c10::Device device = kSim) { return api().getDefaultStream(device); }
inline c10::Stream side_stream(c10::Device device = kSim) { return api().getStreamFromGlobalPool(device); }
inline c10::Event recorded(const c10::Stream& stream) {
  c10::Event event(at::kPrivateUse1);
  event.record(stream);
  return event;
}

/// The message of what `body` throws, without the stack; "" if it throws nothing.
inline std::string thrown_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// All reports since the last call, a line each.
inline std::string reports() {
  std::string all;
  for (const std::string& violation : take_violations()) all += violation + "\n";
  return all;
}

#define EXPECT_SAYS(text, part) EXPECT_THAT((text), ::testing::HasSubstr(part))
#define EXPECT_FAILS(expression, part) \
  EXPECT_SAYS(::finetune::sim::thrown_by([&] { (void)(expression); }), part)

/// Each test begins with nothing counted and nothing reported, and leaves no budget and no fault behind.
class SimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    take_violations();
    reset_counters();
  }
  void TearDown() override {
    set_budget(0, 0);
    throw_on_violation(false);
    for (const Operation operation : {Operation::kAllocation, Operation::kCopy, Operation::kLaunch}) {
      fail_on(operation, 0);
    }
    take_violations();
  }
};

}  // namespace finetune::sim
