#pragma once

/// Runs of the product that are looked at from the device's side.

#include <memory>

#include "../sim_device.h"
#include "tiny_run.h"

namespace finetune::sim {

/// A run and what the device counted.
struct Watched {
  TemporaryFolder folder;
  Json summary;
  Counters counters;
  std::vector<Json> log;  ///< its train events
};

inline std::unique_ptr<Watched> run_on(const std::string& device, const Json& changes) {
  auto watched = std::make_unique<Watched>();
  Json config = tiny_config(watched->folder.path(), device);
  config.merge_patch(changes);
  reset_counters();
  RunOptions options;
  options.quiet = true;
  watched->summary = run(parse_run_config(config, watched->folder.path()), options);
  watched->counters = counters();
  watched->log = events_of(watched->folder.path() / "run", "train");
  return watched;
}

}  // namespace finetune::sim
