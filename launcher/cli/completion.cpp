// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cpprun {

namespace {

// What stands where the flag's value is expected, beside the choices it may have.
enum class Expects { files, folders, hosts, words };

Expects expects(const FlagFacts& flag) {
  if (flag.value == "FILE") return Expects::files;
  if (flag.value.starts_with("HOST")) return Expects::hosts;
  return flag.value == "FOLDER" ? Expects::folders : Expects::words;
}

// "--role" and, where there is one, "-r".
std::vector<std::string> spellings(const FlagFacts& flag) {
  std::vector<std::string> all = {"--" + flag.name};
  if (flag.letter != 0) all.push_back(std::string("-") + flag.letter);
  return all;
}

// Between single quotes of a shell, with a backslash before each of `special`.
std::string quoted(std::string_view text, std::string_view special) {
  std::string safe = "'";
  for (const char byte : text) {
    if (special.find(byte) != std::string_view::npos) safe += '\\';
    safe += byte == '\'' ? "'\\''" : std::string(1, byte);
  }
  return safe + "'";
}

// What follows the script is the script's: there the shell completes the names of files, as it does
// for every program. bash takes words apart at the "=" of --flag=value.
std::string bash_script(const std::vector<FlagFacts>& flags) {
  std::vector<std::string> with_value;
  std::vector<std::string> all;
  std::string values;
  for (const auto& flag : flags) {
    const auto names = spellings(flag);
    all.insert(all.end(), names.begin(), names.end());
    if (!flag.takes_value()) continue;
    with_value.insert(with_value.end(), names.begin(), names.end());
    if (!flag.choices.empty()) {
      values += fmt::format("    {}) found=$(compgen -W '{}' -- \"$word\") ;;\n",
                            fmt::join(names, "|"), fmt::join(flag.choices, " "));
    } else if (expects(flag) == Expects::folders) {
      values += fmt::format(
          "    {}) compopt -o filenames 2>/dev/null; found=$(compgen -d -- \"$word\") ;;\n",
          fmt::join(names, "|"));
    } else if (expects(flag) == Expects::hosts) {
      values += fmt::format("    {}) quote=1; found=$(compgen -A hostname -- \"$word\") ;;\n",
                            fmt::join(names, "|"));
    }
  }
  return fmt::format(
      R"(# bash completion for cpprun: source it, or put it into bash-completion's folder
_cpprun_value() {{
  local found= quote=
  case $1 in
{}  esac
  [[ -z $found ]] || mapfile -t COMPREPLY <<<"$found"
  [[ -z $quote || -z $found ]] || mapfile -t COMPREPLY < <(printf '%q\n' "${{COMPREPLY[@]}}")
}}

_cpprun() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} at=1 flag
  COMPREPLY=()
  [[ $word != "=" ]] || word=
  while ((at < COMP_CWORD)); do
    flag=${{COMP_WORDS[at]}}
    [[ $flag != --* ]] || flag=${{flag//_/-}}
    ((at += 1))
    case $flag in
    {})
      [[ ${{COMP_WORDS[at]}} != "=" ]] || ((at += 1))
      if ((at >= COMP_CWORD)); then
        _cpprun_value "$flag"
        return
      fi
      ((at += 1)) ;;
    -*) ;;
    *) return ;;
    esac
  done
  [[ $word != -* ]] || mapfile -t COMPREPLY < <(compgen -W '{}' -- "$word")
}}

complete -o default -F _cpprun cpprun
)",
      values, fmt::join(with_value, "|"), fmt::join(all, " "));
}

std::string_view zsh_action(Expects expected) {
  if (expected == Expects::hosts) return "_hosts";
  return expected == Expects::files ? "_files" : "_files -/";
}

std::string zsh_script(const std::vector<FlagFacts>& flags) {
  std::string text =
      "#compdef cpprun\n# zsh completion for cpprun: source it, or put it into a "
      "folder of fpath as _cpprun\n\n_cpprun() {\n  _arguments -S \\\n";
  for (const auto& flag : flags) {
    std::string rest = "'['" + quoted(flag.help, "[]") + "']'";
    if (flag.takes_value()) {
      std::string action = " ";
      if (!flag.choices.empty()) {
        action = fmt::format("({})", fmt::join(flag.choices, " "));
      } else if (expects(flag) != Expects::words) {
        action = zsh_action(expects(flag));
      }
      rest += ":" + quoted(flag.value, ":") + ":" + quoted(action, "");
    }
    const auto ending = flag.takes_value() ? "=" : "";
    if (flag.letter == 0) {
      text += fmt::format("    --{}{}{} \\\n", flag.name, ending, rest);
    } else {
      const auto glued = flag.takes_value() ? "+" : "";
      text += fmt::format("    '(-{0} --{1})'{{-{0}{2},--{1}{3}}}{4} \\\n", flag.letter, flag.name,
                          glued, ending, rest);
    }
  }
  return text +
         "    '1:script:_files' '*::arguments:_files'\n}\n\n"
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _cpprun \"$@\"\nelse\n"
         "  compdef _cpprun cpprun\nfi\n";
}

std::string fish_script(const std::vector<FlagFacts>& flags) {
  std::string text = "# fish completion for cpprun\n";
  for (const auto& flag : flags) {
    text += fmt::format("complete -c cpprun -l {}", flag.name);
    if (flag.letter != 0) text += fmt::format(" -s {}", flag.letter);
    if (flag.takes_value()) {
      if (!flag.choices.empty()) {
        text += fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
      } else if (expects(flag) == Expects::folders) {
        text += " -x -a '(__fish_complete_directories)'";
      } else if (expects(flag) == Expects::hosts) {
        text += " -x -a '(__fish_print_hostnames)'";
      } else {
        text += expects(flag) == Expects::files ? " -r -F" : " -x";
      }
    }
    text += fmt::format(" -d {}\n", quoted(flag.help, "\\"));
  }
  return text;
}

std::string tcsh_script(const std::vector<FlagFacts>& flags) {
  std::string text = "# tcsh completion for cpprun\ncomplete cpprun";
  std::vector<std::string> names;
  for (const auto& flag : flags) {
    names.push_back(flag.name + (flag.takes_value() ? "=" : ""));
    if (!flag.choices.empty()) {
      text += fmt::format(" 'c/--{}=/({})/'", flag.name, fmt::join(flag.choices, " "));
    } else if (expects(flag) == Expects::files || expects(flag) == Expects::folders) {
      text += fmt::format(" 'c/--{}=/{}/'", flag.name, expects(flag) == Expects::files ? "f" : "d");
    }
  }
  return text + fmt::format(" 'c/--/({})//' 'p/*/f/'\n", fmt::join(names, " "));
}

}  // namespace

std::optional<std::string> completion_script(std::string_view shell,
                                             const std::vector<FlagFacts>& flags) {
  if (shell == "bash") return bash_script(flags);
  if (shell == "zsh") return zsh_script(flags);
  if (shell == "fish") return fish_script(flags);
  if (shell == "tcsh") return tcsh_script(flags);
  return std::nullopt;
}

}  // namespace cpprun
