#pragma once

#include "finetune/core/error.h"

namespace finetune {

/// What has been asked of the process from outside since it started. Polled between steps, in evaluation and
/// in start-up.
enum class StopRequest { kNone, kInterrupt, kTerminate };

/// Installs handlers: SIGINT and SIGTERM ask for a save and a stop (a second one exits at once), SIGUSR1 for
/// a save.
void install_signal_handlers();

StopRequest stop_request();

/// True once for each SIGUSR1.
bool take_save_request();

/// Throws `Interrupted` if a stop was asked for. For phases that have nothing to save.
void throw_if_stop_requested();

}  // namespace finetune
