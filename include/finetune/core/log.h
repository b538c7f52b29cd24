#pragma once

#include <spdlog/spdlog.h>

namespace finetune {

/// How much a command says on stderr. Results go to stdout and are not logged.
enum class Verbosity { kQuiet, kNormal, kVerbose };

/// Sends spdlog's default logger to stderr. Colours only on a terminal and without NO_COLOR.
void configure_logging(Verbosity verbosity);

}  // namespace finetune
