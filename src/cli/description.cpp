#include "description.h"

#include <algorithm>
#include <map>

#include "finetune/core/text.h"
#include "finetune/core/version.h"

namespace finetune::cli {
namespace {

/// Names whose values are paths; others are words.
struct Value {
  const char* text;
  ValueKind kind;
};
const std::map<std::string, Value> kValues{
    {"--config", {"FILE", ValueKind::kFile}},        {"--data", {"FILE", ValueKind::kFile}},
    {"--input", {"FILE", ValueKind::kFile}},         {"--output", {"FILE", ValueKind::kFile}},
    {"--predictions", {"FILE", ValueKind::kFile}},   {"--logits", {"FILE", ValueKind::kFile}},
    {"--print", {"FILE", ValueKind::kFile}},         {"--validate", {"FILE", ValueKind::kFile}},
    {"--json", {"FILE", ValueKind::kFile}},          {"--resume", {"never|auto|PATH", ValueKind::kFile}},
    {"--model", {"DIR", ValueKind::kDirectory}},     {"--output-dir", {"DIR", ValueKind::kDirectory}},
    {"--set", {"KEY=VALUE", ValueKind::kConfigKey}}, {"--max-rows", {"N", ValueKind::kWord}},
    {"--threads", {"N", ValueKind::kWord}},          {"--max-length", {"N", ValueKind::kWord}},
    {"--samples", {"N", ValueKind::kWord}},          {"--device", {"DEVICE", ValueKind::kWord}},
    {"--devices", {"DEVICES", ValueKind::kWord}},    {"--text", {"COLUMN", ValueKind::kWord}},
    {"--text-pair", {"COLUMN", ValueKind::kWord}},   {"--label", {"COLUMN", ValueKind::kWord}},
    {"--allow-change", {"WHAT", ValueKind::kWord}}};

/// "TEXT:{a,b}" and "{a->1,b->2}" list what is allowed.
std::vector<std::string> choices_in(const std::string& type_name) {
  const size_t open = type_name.find('{');
  const size_t close = type_name.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  std::vector<std::string> choices = split_at(type_name.substr(open + 1, close - open - 1), ",");
  for (std::string& choice : choices) choice = choice.substr(0, choice.find("->"));
  return choices;
}

OptionDescription describe(const CLI::Option& option) {
  OptionDescription result;
  for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  // A flag that can be turned off has its other name among these as well.
  result.help = option.get_description();
  result.required = option.get_required();
  result.repeatable =
      option.get_expected_max() > 1 || option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  if (result.positional()) {
    result.value = option.get_name(true);
    result.kind = ValueKind::kFile;
    result.choices = choices_in(option.get_type_name());
    if (!result.choices.empty()) result.kind = ValueKind::kChoice;
    return result;
  }
  if (option.get_type_size() == 0 || option.get_expected_max() == 0) return result;  // a flag
  result.choices = choices_in(option.get_type_name());
  result.default_value = option.get_default_str();
  const auto known = kValues.find(result.names.back());
  result.value = known == kValues.end() ? "VALUE" : known->second.text;
  result.kind = known == kValues.end() ? ValueKind::kWord : known->second.kind;
  if (!result.choices.empty()) {
    result.kind = ValueKind::kChoice;
    result.value = "NAME";
  }
  return result;
}

std::vector<OptionDescription> options_of(const CLI::App& app) {
  std::vector<OptionDescription> options;
  for (const CLI::Option* option : app.get_options()) options.push_back(describe(*option));
  // An option group is an app without a name.
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (!group->get_name().empty()) continue;
    for (OptionDescription& option : options_of(*group)) {
      const auto same = [&](const OptionDescription& other) { return other.names == option.names; };
      if (std::none_of(options.begin(), options.end(), same)) options.push_back(std::move(option));
    }
  }
  std::stable_partition(options.begin(), options.end(),
                        [](const OptionDescription& option) { return option.positional(); });
  return options;
}

}  // namespace

ProgramDescription describe_program(const CLI::App& app) {
  ProgramDescription program{.name = app.get_name(),
                             .help = app.get_description(),
                             .version = FINETUNE_VERSION,
                             .options = options_of(app),
                             .commands = {}};
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name().empty()) continue;
    program.commands.push_back(
        {.name = command->get_name(), .help = command->get_description(), .options = options_of(*command)});
  }
  return program;
}

}  // namespace finetune::cli
