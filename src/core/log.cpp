#include "finetune/core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace finetune {

void configure_logging(Verbosity verbosity) {
  const bool colours = ::isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(colours ? spdlog::color_mode::always
                                                                            : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("finetune", std::move(sink));
  logger->set_pattern(verbosity == Verbosity::kVerbose ? "[%H:%M:%S.%e] %^%l%$: %v" : "%^%l%$: %v");
  logger->set_level(verbosity == Verbosity::kQuiet     ? spdlog::level::err
                    : verbosity == Verbosity::kVerbose ? spdlog::level::debug
                                                       : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace finetune
