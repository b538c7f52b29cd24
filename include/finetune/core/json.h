#pragma once

#include <nlohmann/json.hpp>

namespace finetune {

/// JSON whose objects keep the order in which keys were written: configs and logs are read by people.
using Json = nlohmann::ordered_json;

}  // namespace finetune
