#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "finetune/device/plugin.h"

/// Runs the tests of the CUDA operators on the GPU; says why and ends with 77 where there is none.
int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  ::testing::InitGoogleTest(&argc, argv);
  std::string why_not;
  if (finetune::load_device_plugin("cuda", &why_not) == nullptr) {
    std::printf("skipped: %s\n", why_not.c_str());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
