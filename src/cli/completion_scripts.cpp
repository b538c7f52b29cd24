#include <algorithm>

#include "config/key_table.h"
#include "description.h"

namespace finetune::cli {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

/// Inside single quotes of a POSIX shell.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::vector<std::string> command_names(const ProgramDescription& program) {
  std::vector<std::string> names;
  for (const CommandDescription& command : program.commands) names.push_back(command.name);
  return names;
}

/// The command's own options, then those of every command.
std::vector<const OptionDescription*> all_options(const ProgramDescription& program,
                                                  const CommandDescription& command) {
  std::vector<const OptionDescription*> options;
  for (const OptionDescription& option : command.options) options.push_back(&option);
  for (const OptionDescription& option : program.options) {
    const bool own = std::any_of(command.options.begin(), command.options.end(),
                                 [&](const auto& other) { return other.names == option.names; });
    if (!own) options.push_back(&option);
  }
  return options;
}

std::string config_keys(const char* separator) {
  std::string keys;
  for (const std::string& name : config::dotted_key_names()) {
    const config::Key* key = config::find_dotted_key(name);
    if (key->is_section()) continue;
    keys += (keys.empty() ? "" : separator) + name + "=";
  }
  return keys;
}

// ---- bash
// ---------------------------------------------------------------------------------------------------

std::string bash_values(const OptionDescription& option) {
  switch (option.kind) {
    case ValueKind::kChoice:
      return "_finetune_words " + quoted(joined(option.choices, " "));
    case ValueKind::kFile:
      return "_finetune_files";
    case ValueKind::kDirectory:
      return "_finetune_folders";
    case ValueKind::kConfigKey:
      return "_finetune_words \"$_finetune_keys\" && compopt -o nospace 2>/dev/null";
    default:
      return ":";
  }
}

std::string bash_command(const ProgramDescription& program, const CommandDescription& command) {
  std::string text = "    " + command.name + ")\n      case $prev in\n";
  std::vector<std::string> flags;
  std::string positional = "_finetune_files";
  for (const OptionDescription* option : all_options(program, command)) {
    if (option->positional()) {
      positional = bash_values(*option);
      continue;
    }
    flags.insert(flags.end(), option->names.begin(), option->names.end());
    if (option->value.empty()) continue;
    text += "        " + joined(option->names, " | ") + ") " + bash_values(*option) + "; return ;;\n";
  }
  return text + "      esac\n      if [[ $cur == -* ]]; then _finetune_words " + quoted(joined(flags, " ")) +
         "; else " + positional + "; fi\n      ;;\n";
}

}  // namespace

std::string bash_completion(const ProgramDescription& program) {
  const std::string names = joined(command_names(program), " ");
  std::string text =
      "# bash completion for finetune; made by: finetune completion bash\n"
      "_finetune_keys=" +
      quoted(config_keys(" ")) +
      "\n"
      "_finetune_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
      "_finetune_files() { mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); compopt -o filenames "
      "2>/dev/null; }\n"
      "_finetune_folders() { mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); compopt -o filenames "
      "2>/dev/null; }\n"
      "_finetune() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= first=1\n"
      "  COMPREPLY=()\n"
      "  while [[ ${COMP_WORDS[first]} == --quiet || ${COMP_WORDS[first]} == --verbose ]]; do ((++first)); "
      "done\n"
      "  if ((first < COMP_CWORD)); then command=${COMP_WORDS[first]}; fi\n"
      "  if [[ -z $command && $cur != -* ]]; then _finetune_words " +
      quoted(names) +
      "; return; fi\n"
      "  if [[ -z $command || $command == -* ]]; then command=train; fi\n"
      "  case $command in\n";
  for (const CommandDescription& command : program.commands) text += bash_command(program, command);
  return text +
         "  esac\n"
         "}\n"
         "complete -F _finetune finetune\n";
}

// ---- zsh
// ----------------------------------------------------------------------------------------------------

namespace {

std::string zsh_values(const OptionDescription& option) {
  switch (option.kind) {
    case ValueKind::kChoice:
      return "(" + joined(option.choices, " ") + ")";
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kDirectory:
      return "_files -/";
    case ValueKind::kConfigKey:
      return "_finetune_keys";
    default:
      return " ";
  }
}

/// Inside the brackets of a specification of `_arguments`.
std::string zsh_help(const std::string& help) {
  std::string text = replaced(help, "\\", "\\\\");
  for (const char* special : {"[", "]", ":"}) text = replaced(text, special, std::string("\\") + special);
  return text;
}

std::string zsh_option(const OptionDescription& option) {
  const std::string value =
      option.value.empty() ? "" : ":" + zsh_help(option.value) + ":" + zsh_values(option);
  if (option.positional()) return " \\\n        " + quoted((option.repeatable ? "*" : "") + value);
  std::string text;
  for (const std::string& name : option.names) {
    text += " \\\n        " +
            quoted((option.repeatable ? "*" : "") + name + "[" + zsh_help(option.help) + "]" + value);
  }
  return text;
}

}  // namespace

std::string zsh_completion(const ProgramDescription& program) {
  std::string text =
      "#compdef finetune\n"
      "# zsh completion for finetune; made by: finetune completion zsh\n"
      "_finetune_keys() {\n"
      "  local -a keys=(" +
      config_keys(" ") +
      ")\n"
      "  compadd -S '' -a keys\n"
      "}\n"
      "_finetune() {\n"
      "  local -a commands=(\n";
  for (const CommandDescription& command : program.commands) {
    text += "    " + quoted(command.name + ":" + replaced(command.help, ":", "\\:")) + "\n";
  }
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
      "    _describe -t commands 'command' commands\n"
      "    return\n"
      "  fi\n"
      "  local command=train\n"
      "  case $words[2] in\n"
      "    (" +
      joined(command_names(program), "|") +
      ") command=$words[2]; shift words; (( CURRENT-- )) ;;\n"
      "  esac\n"
      "  case $command in\n";
  for (const CommandDescription& command : program.commands) {
    text += "    (" + command.name + ")\n      _arguments";
    for (const OptionDescription* option : all_options(program, command)) text += zsh_option(*option);
    text += "\n      ;;\n";
  }
  return text +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _finetune ]]; then _finetune \"$@\"; else compdef _finetune finetune; fi\n";
}

// ---- fish
// ---------------------------------------------------------------------------------------------------

namespace {

std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const OptionDescription& option, const std::string& condition) {
  std::string text = "complete -c finetune -n " + fish_quoted(condition);
  if (option.positional()) {
    if (option.kind != ValueKind::kChoice) return text + " -F\n";
    return text + " -f -a " + fish_quoted(joined(option.choices, " ")) + "\n";
  }
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  text += " -d " + fish_quoted(option.help);
  switch (option.kind) {
    case ValueKind::kNone:
      break;
    case ValueKind::kChoice:
      text += " -x -a " + fish_quoted(joined(option.choices, " "));
      break;
    case ValueKind::kFile:
      text += " -r -F";
      break;
    case ValueKind::kDirectory:
      text += " -x -a '(__fish_complete_directories)'";
      break;
    case ValueKind::kConfigKey:
      text += " -x -a " + fish_quoted(config_keys(" "));
      break;
    case ValueKind::kWord:
      text += " -x";
      break;
  }
  return text + "\n";
}

}  // namespace

std::string fish_completion(const ProgramDescription& program) {
  const std::string names = joined(command_names(program), " ");
  std::string others;
  for (const CommandDescription& command : program.commands) {
    if (command.name != "train") others += (others.empty() ? "" : " ") + command.name;
  }
  std::string text =
      "# fish completion for finetune; made by: finetune completion fish\n"
      "complete -c finetune -f\n";
  for (const CommandDescription& command : program.commands) {
    text += "complete -c finetune -n " + fish_quoted("not __fish_seen_subcommand_from " + names) + " -a " +
            command.name + " -d " + fish_quoted(command.help) + "\n";
  }
  for (const CommandDescription& command : program.commands) {
    const std::string condition = command.name == "train" ? "not __fish_seen_subcommand_from " + others
                                                          : "__fish_seen_subcommand_from " + command.name;
    for (const OptionDescription& option : command.options) text += fish_option(option, condition);
  }
  for (const OptionDescription& option : program.options) {
    if (std::find(option.names.begin(), option.names.end(), "--help") == option.names.end()) {
      text += fish_option(option, "true");
    }
  }
  return text;
}

}  // namespace finetune::cli
