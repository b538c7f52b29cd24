#pragma once

// Precompiled once for every file from the layer `device` on. ATen's umbrella header is nine tenths of a
// file's compile time. Only what most files use: torch/library.h here would cost every one of them 2.5 s,
// since the compiler instantiates its templates anew in each.
#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
