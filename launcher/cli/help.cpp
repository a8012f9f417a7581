// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <string_view>

#include "proto/text.h"

namespace cpprun {

namespace {

struct Example {
  std::string_view purpose;
  std::string_view command;
};

constexpr std::array<Example, 4> examples = {{
    {"one machine, one worker per GPU",
     "cpprun --standalone --nproc-per-node=gpu train.py --epochs=3"},
    {"two machines: the same command on both, except for the rank",
     "cpprun --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 ./train"},
    {"two to four machines with the rendezvous on host head; the job survives a lost machine",
     "cpprun --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=head --rdzv-id=tonight \\\n"
     "      --max-restarts=3 train.py"},
    {"the output of every worker in files, and on the console with its rank",
     "cpprun --nproc-per-node=2 --log-dir=logs --tee=3 train.py"},
}};

std::string spelled(const FlagFacts& flag) {
  auto text = fmt::format("--{}", flag.name);
  if (flag.takes_value()) text += fmt::format("={}", flag.value);
  return flag.letter == 0 ? text : fmt::format("-{}, {}", flag.letter, text);
}

}  // namespace

namespace {

// The flags of the short help: those that most people use.
constexpr std::array<std::string_view, 21> common_flags = {"nnodes",       "nproc-per-node",
                                                           "node-rank",    "standalone",
                                                           "master-addr",  "master-port",
                                                           "rdzv-backend", "rdzv-endpoint",
                                                           "rdzv-id",      "hosts",
                                                           "module",       "no-python",
                                                           "max-restarts", "shutdown-timeout",
                                                           "report",       "log-dir",
                                                           "tee",          "config",
                                                           "dry-run",      "help",
                                                           "version"};

// "failures" for the group "Failures and restarts".
std::string topic_of(const FlagFacts& flag) {
  std::string topic = flag.group.substr(0, flag.group.find(' '));
  topic.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(topic.front())));
  return topic;
}

std::string flag_lines(const std::vector<FlagFacts>& flags,
                       const std::function<bool(const FlagFacts&)>& wanted) {
  std::string text;
  std::string_view group;
  for (const auto& flag : flags) {
    if (!wanted(flag)) continue;
    if (flag.group != group) text += fmt::format("\n{}:\n", flag.group);
    group = flag.group;
    text += fmt::format("  {:<36}  {}\n", spelled(flag), flag.help);
  }
  return text;
}

std::string flag_page(const FlagFacts& flag) {
  std::string text = fmt::format("  {:<36}  {}\n", spelled(flag), flag.help);
  if (!flag.choices.empty()) {
    text += fmt::format("\nValues: {}\n", fmt::join(flag.choices, ", "));
  }
  if (!flag.variables.empty()) {
    text += fmt::format("Environment: {}\n", fmt::join(flag.variables, ", "));
  }
  return text;
}

}  // namespace

std::string help_text(const std::vector<FlagFacts>& flags, std::string_view topic) {
  std::string name(topic.substr(std::min(topic.find_first_not_of('-'), topic.size())));
  std::ranges::replace(name, '_', '-');
  const auto about = [&](const FlagFacts& flag) { return topic_of(flag) == name; };
  if (std::ranges::any_of(flags, about)) return flag_lines(flags, about).substr(1);
  if (const auto flag = std::ranges::find(flags, name, &FlagFacts::name); flag != flags.end()) {
    return flag_page(*flag);
  }
  std::string text =
      "Usage: cpprun [flags] script [arguments of the script]\n\n"
      "Launches and supervises the workers of a distributed training job. Accepts torchrun's "
      "flags,\n"
      "with dashes or underscores, and unique abbreviations; PET_<NAME> sets a default.\n";
  text += flag_lines(flags, [&](const FlagFacts& flag) {
    return name == "all" || std::ranges::find(common_flags, flag.name) != common_flags.end();
  });
  if (name != "all") {
    std::vector<std::string> topics;
    for (const auto& flag : flags) {
      if (topics.empty() || topics.back() != topic_of(flag)) topics.push_back(topic_of(flag));
    }
    text += fmt::format(
        "\nMore: cpprun --help all ({} flags), --help FLAG (without dashes), or --help "
        "TOPIC:\n{}.\n",
        flags.size(), fmt::join(topics, ", "));
  }
  text +=
      "\nA .py file or a module (-m) runs under PYTHON_EXEC, or the Python next to cpprun, or the\n"
      "Python of the active environment, or python3 on PATH. Any other executable runs directly. "
      "Examples:\n";
  for (const auto& example : examples) {
    text += fmt::format("\n  {}\n    {}\n", example.purpose, example.command);
  }
  return text;
}

std::string manual_page(const std::vector<FlagFacts>& flags, const std::string& version) {
  std::string text = fmt::format(
      ".TH CPPRUN 1 \"\" \"cpprun {}\" \"User Commands\"\n"
      ".nh\n.ad l\n.SH NAME\ncpprun \\- launch and supervise the workers of a distributed training "
      "job\n"
      ".SH SYNOPSIS\n.B cpprun\n[\\fIflags\\fR] \\fIscript\\fR [\\fIarguments of the script\\fR]\n"
      ".SH DESCRIPTION\n"
      "Starts the workers of a job on this machine, connects them with those on other machines, "
      "monitors them, and stops all of them when one fails. Accepts the flags of torchrun, with "
      "dashes or underscores, and unique abbreviations.\n.PP\n"
      "A .py file or a module (\\fB\\-m\\fR) is run by the Python on PATH; any other executable is "
      "run directly. Arguments after the script are passed to it.\n.SH OPTIONS\n",
      roff_text(version));
  std::string_view group;
  for (const auto& flag : flags) {
    if (flag.group != group) text += fmt::format(".SS \"{}\"\n", flag.group);
    group = flag.group;
    text += fmt::format(".TP\n.B {}\n{}.", roff_text(spelled(flag)), roff_text(flag.help));
    if (!flag.variables.empty()) {
      text += fmt::format(" Environment: {}.", fmt::join(flag.variables, ", "));
    }
    text += '\n';
  }
  text +=
      ".SH FILES\nA file for \\fB\\-\\-config\\fR has one line per flag: its name without dashes, "
      "=, and its value. Strings may be quoted, switches are true or false, and lists are in [ ]. "
      "Comments begin with #. The command line overrides the environment, and the environment "
      "overrides the file.\n"
      ".SH ENVIRONMENT\n.TP\n.B PET_<NAME>\nDefault of the flag with that name, in capitals and "
      "with underscores. Switches take 1 or 0.\n"
      ".TP\n.B PYTHON_EXEC\nThe Python interpreter that runs scripts.\n"
      ".SH \"EXIT STATUS\"\n0 if all workers succeeded; otherwise the exit code of the worker that "
      "failed first, or 128 plus the number of its signal; 2 for an invalid command line; 1 for "
      "other errors.\n"
      ".SH EXAMPLES\n";
  for (const auto& example : examples) {
    text += fmt::format(".PP\n{}:\n.PP\n.nf\n    {}\n.fi\n", example.purpose,
                        roff_text(example.command));
  }
  return text + ".SH \"SEE ALSO\"\n.BR torchrun (1)\n";
}

namespace {

// What the shell should complete as the flag's value, besides its choices.
enum class Expects { files, directories, hosts, words };

Expects expects(const FlagFacts& flag) {
  if (flag.value == "FILE") return Expects::files;
  if (flag.value.starts_with("HOST")) return Expects::hosts;
  return flag.value == "DIR" ? Expects::directories : Expects::words;
}

// The long and, if any, the short spelling: "--role", "-r".
std::vector<std::string> spellings(const FlagFacts& flag) {
  std::vector<std::string> all = {"--" + flag.name};
  if (flag.letter != 0) all.push_back(std::string("-") + flag.letter);
  return all;
}

// In single quotes for a shell, with a backslash before each character in `special`.
std::string quoted(std::string_view text, std::string_view special) {
  std::string safe = "'";
  for (const char byte : text) {
    if (special.find(byte) != std::string_view::npos) safe += '\\';
    safe += byte == '\'' ? "'\\''" : std::string(1, byte);
  }
  return safe + "'";
}

// After the script, the shell completes file names as for any program. bash splits words at the "="
// of --flag=value.
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
    } else if (expects(flag) == Expects::directories) {
      values += fmt::format(
          "    {}) compopt -o filenames 2>/dev/null; found=$(compgen -d -- \"$word\") ;;\n",
          fmt::join(names, "|"));
    } else if (expects(flag) == Expects::hosts) {
      values += fmt::format("    {}) quote=1; found=$(compgen -A hostname -- \"$word\") ;;\n",
                            fmt::join(names, "|"));
    }
  }
  return fmt::format(
      R"(# bash completion for cpprun: source it, or put it into bash-completion's directory
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
      "directory of fpath as _cpprun\n\n_cpprun() {\n  _arguments -S \\\n";
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
      } else if (expects(flag) == Expects::directories) {
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
    } else if (expects(flag) == Expects::files || expects(flag) == Expects::directories) {
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
