// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/daemon_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proto/text.h"

namespace cpprun {

namespace {

// What stands where the flag's value is expected, in the words of each shell.
struct Values {
  std::string bash;  // a command that prints those that begin with $word
  std::string zsh;   // an action of _arguments
  std::string fish;  // arguments of complete
};

Values values_of(const DaemonFlag& flag) {
  if (!flag.choices.empty()) {
    const auto words = fmt::format("{}", fmt::join(flag.choices, " "));
    return {.bash = fmt::format("compgen -W '{}' -- \"$word\"", words),
            .zsh = fmt::format("({})", words),
            .fish = fmt::format(" -x -a '{}'", words)};
  }
  if (flag.value == "FILE") {
    return {.bash = "compgen -f -- \"$word\"", .zsh = "_files", .fish = " -r -F"};
  }
  if (flag.value == "FOLDER") {
    return {.bash = "compgen -d -- \"$word\"",
            .zsh = "_files -/",
            .fish = " -x -a '(__fish_complete_directories)'"};
  }
  if (flag.value == "ADDRESS") {
    return {.bash = "compgen -A hostname -- \"$word\"",
            .zsh = "_hosts",
            .fish = " -x -a '(__fish_print_hostnames)'"};
  }
  return {.bash = ":", .zsh = " ", .fish = " -x"};
}

std::string bash_script(const std::vector<DaemonFlag>& flags) {
  std::vector<std::string> all;
  std::string cases;
  for (const auto& flag : flags) {
    all.insert(all.end(), flag.spellings.begin(), flag.spellings.end());
    if (flag.value.empty()) continue;
    cases += fmt::format("    {}) mapfile -t COMPREPLY < <({}) ;;\n",
                         fmt::join(flag.spellings, "|"), values_of(flag).bash);
  }
  // bash takes words apart at the "=" of --flag=value.
  return fmt::format(
      R"(# bash completion for cpprund: source it, or put it into bash-completion's folder
_cpprund() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD - 1]}}
  COMPREPLY=()
  [[ $flag != "=" ]] || flag=${{COMP_WORDS[COMP_CWORD - 2]}}
  if [[ $word == "=" ]]; then
    word=
    flag=${{COMP_WORDS[COMP_CWORD - 1]}}
  fi
  case $flag in
{}    *) mapfile -t COMPREPLY < <(compgen -W '{}' -- "$word") ;;
  esac
}}

complete -o filenames -F _cpprund cpprund
)",
      cases, fmt::join(all, " "));
}

std::string zsh_script(const std::vector<DaemonFlag>& flags) {
  std::string text =
      "#compdef cpprund\n# zsh completion for cpprund: source it, or put it into a folder of fpath "
      "as _cpprund\n\n_cpprund() {\n  _arguments -S";
  for (const auto& flag : flags) {
    for (const auto& spelling : flag.spellings) {
      const auto value = flag.value.empty()
                             ? ""
                             : fmt::format(":{}:{}", zsh_text(flag.value), values_of(flag).zsh);
      text += " \\\n    " +
              shell_word(fmt::format("{}{}[{}]{}", spelling, flag.value.empty() ? "" : "=",
                                     zsh_text(flag.help), value));
    }
  }
  return text +
         "\n}\n\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _cpprund \"$@\"\nelse\n"
         "  compdef _cpprund cpprund\nfi\n";
}

std::string fish_script(const std::vector<DaemonFlag>& flags) {
  std::string text = "# fish completion for cpprund\ncomplete -c cpprund -f\n";
  for (const auto& flag : flags) {
    text += "complete -c cpprund";
    for (const auto& spelling : flag.spellings) {
      text += spelling.starts_with("--") ? fmt::format(" -l {}", spelling.substr(2))
                                         : fmt::format(" -s {}", spelling.substr(1));
    }
    if (!flag.value.empty()) text += values_of(flag).fish;
    text += fmt::format(" -d {}\n", shell_word(flag.help));
  }
  return text;
}

}  // namespace

std::string daemon_manual(const std::vector<DaemonFlag>& flags, std::string_view version) {
  std::string text = fmt::format(
      ".TH CPPRUND 8 \"\" \"cpprund {}\" \"System Administration\"\n"
      ".nh\n.ad l\n.SH NAME\ncpprund \\- the rendezvous daemon of cpprun\n"
      ".SH SYNOPSIS\n.B cpprund\n[\\fIflags\\fR]\n"
      ".SH DESCRIPTION\nHosts the meetings of jobs whose launchers name it by "
      "\\fB\\-\\-rdzv\\-endpoint\\fR, and the store on which their workers meet. PyTorch clients "
      "of "
      "every version since 1.9 can use it. It keeps nothing on a disk without "
      "\\fB\\-\\-state\\fR.\n.SH OPTIONS\n",
      roff_text(version));
  for (const auto& flag : flags) {
    const auto value = flag.value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff_text(flag.value));
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}.",
                        roff_text(fmt::format("{}", fmt::join(flag.spellings, ", "))), value,
                        roff_text(flag.help));
    if (!flag.choices.empty()) {
      text +=
          fmt::format(" One of {}.", roff_text(fmt::format("{}", fmt::join(flag.choices, ", "))));
    }
    if (!flag.standard.empty()) text += fmt::format(" Default: {}.", roff_text(flag.standard));
    text += '\n';
  }
  return text +
         ".SH SIGNALS\nSIGTERM and SIGINT end it; SIGHUP has it read its secrets again.\n"
         ".SH \"EXIT STATUS\"\n0 it was asked to end; 2 a command line that cannot be obeyed; 1 "
         "anything else.\n"
         ".SH FILES\n.TP\n.I /etc/default/cpprund\nCPPRUND_FLAGS=: the flags of the service.\n"
         ".SH ENVIRONMENT\n.TP\n.B CPPRUN_LOG_LEVEL\nWhat \\fB\\-\\-log\\-level\\fR says where it "
         "is not given.\n.TP\n.B CPPRUN_SECRET_FILE, CPPRUN_REQUIRE_SECRET\nWhere the secret lies; "
         "1: it has to have one.\n.TP\n.B XDG_RUNTIME_DIR, TMPDIR\nWhere its socket for "
         "\\fBcpprunctl\\fR lies.\n"
         ".SH \"SEE ALSO\"\n.BR cpprun (1),\n.BR cpprunctl (1)\n";
}

std::optional<std::string> daemon_completion(std::string_view shell,
                                             const std::vector<DaemonFlag>& flags) {
  if (shell == "bash") return bash_script(flags);
  if (shell == "zsh") return zsh_script(flags);
  if (shell == "fish") return fish_script(flags);
  return std::nullopt;
}

}  // namespace cpprun
