#pragma once

// Precompiled once for every file from the layer `device` on. ATen's umbrella header is nine tenths of a
// file's compile time.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
