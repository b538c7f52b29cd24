#include "config.h"

#include <iostream>

#include "finetune/config/load.h"
#include "finetune/core/error.h"

namespace finetune::cli {
namespace {

void print(const Json& json) {
  // A path may hold bytes that are no UTF-8; printing it must not fail.
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace

int run_config(const ConfigOptions& options) {
  switch (options.action) {
    case ConfigOptions::Action::kPrint:
      print(to_json(load_run_config(options.file, options.overrides)));
      break;
    case ConfigOptions::Action::kSchema:
      print(config_schema());
      break;
    case ConfigOptions::Action::kValidate:
      load_run_config(options.file, options.overrides);
      std::cout << options.file.string() << ": valid\n";
      break;
  }
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace finetune::cli
