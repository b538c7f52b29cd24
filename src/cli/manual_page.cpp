#include "description.h"

namespace finetune::cli {
namespace {

/// Text for troff: a dash that can be copied, no escape and no request by chance.
std::string plain(const std::string& text) {
  std::string result;
  for (const char byte : text) {
    if (byte == '\\') {
      result += "\\e";
    } else if (byte == '-') {
      result += "\\-";
    } else if (byte == '\n') {
      result += "\n.br\n";
    } else {
      result += byte;
    }
  }
  if (result.starts_with('.') || result.starts_with('\'')) result.insert(0, "\\&");
  return result;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string slanted(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

std::string option_entry(const OptionDescription& option) {
  std::string head;
  for (const std::string& name : option.names) head += (head.empty() ? "" : ", ") + bold(name);
  if (!option.value.empty()) head += (head.empty() ? "" : " ") + slanted(option.value);
  std::string text = ".TP\n" + head + "\n" + plain(option.help);
  if (!option.choices.empty()) {
    std::string choices;
    for (const std::string& choice : option.choices) choices += (choices.empty() ? "" : ", ") + choice;
    text += text.ends_with('.') ? " " : ". ";
    text += "One of: " + plain(choices) + ".";
  }
  if (!option.default_value.empty()) text += " (default: " + plain(option.default_value) + ")";
  return text + "\n";
}

std::string synopsis(const ProgramDescription& program, const CommandDescription& command) {
  std::string text = bold(program.name) + " " + bold(command.name);
  for (const OptionDescription& option : command.options) {
    if (option.positional()) {
      text += " " + slanted(option.value) + (option.repeatable ? "..." : "");
    } else if (option.required) {
      text += " " + bold(option.names.back()) + " " + slanted(option.value);
    }
  }
  return text + " [" + slanted("options") + "]";
}

constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n"
    ".TP\n0\nDone.\n"
    ".TP\n1\nAn internal error.\n"
    ".TP\n2\nUsage, config, or a run folder that is in use or holds a run.\n"
    ".TP\n3\nData files, rows or labels.\n"
    ".TP\n4\nCheckpoint, model or tokenizer files.\n"
    ".TP\n5\nThe device cannot be used, or is out of memory.\n"
    ".TP\n6\nThe run diverged.\n"
    ".TP\n130, 143\nStopped by SIGINT or SIGTERM, with the state saved. SIGUSR1 saves and goes on.\n";

constexpr const char* kEnvironment =
    ".SH ENVIRONMENT\n"
    ".TP\n\\fBFINETUNE_CACHE\\fR, \\fBXDG_CACHE_HOME\\fR\nWhere encoded rows are kept.\n"
    ".TP\n\\fBHF_HUB_CACHE\\fR, \\fBHF_HOME\\fR\nWhere models that are named by a hub id are looked for.\n"
    ".TP\n\\fBNO_COLOR\\fR\nNo colours on the terminal.\n";

constexpr const char* kExamples =
    ".SH EXAMPLES\n"
    ".nf\n"
    "finetune init train.csv \\-\\-model models/bert \\-\\-output mine.json\n"
    "finetune \\-\\-config mine.json \\-\\-dry\\-run\n"
    "finetune \\-\\-config mine.json\n"
    "finetune \\-\\-config mine.json \\-\\-resume auto\n"
    "finetune predict \\-\\-model runs/mine/model \\-\\-input texts.txt\n"
    ".fi\n";

}  // namespace

std::string manual_page(const ProgramDescription& program) {
  std::string text =
      ".TH FINETUNE 1 \"\" \"finetune " + program.version + "\" \"User Commands\"\n" +
      ".SH NAME\nfinetune \\- " + "fine\\-tunes BERT\\-style encoders for classification\n" +
      ".SH SYNOPSIS\n" + bold(program.name) + " " + bold("--config") + " " + slanted("FILE") + " [" +
      slanted("options") + "]\n.br\n" + bold(program.name) + " " + slanted("COMMAND") + " [" +
      slanted("options") + "]\n" + ".SH DESCRIPTION\n" + plain(program.help) +
      "\nWithout a command, \\fBtrain\\fR is meant. A run is described by a JSON file; \\fBfinetune "
      "config \\-\\-schema\\fR prints every key of it. Results go to standard output, everything else "
      "to standard error.\n.SH OPTIONS OF EVERY COMMAND\n";
  for (const OptionDescription& option : program.options) text += option_entry(option);
  text += ".SH COMMANDS\n";
  for (const CommandDescription& command : program.commands) {
    text += ".SS " + synopsis(program, command) + "\n" + plain(command.help) + ".\n";
    for (const OptionDescription& option : command.options) {
      const bool help = !option.positional() && option.names.back() == "--help";
      if (!help) text += option_entry(option);
    }
  }
  return text + kExitStatus + kEnvironment + kExamples;
}

}  // namespace finetune::cli
