// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/command_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::string_view jobs_of_now = "cpprunctl ls --names 2>/dev/null";

bool takes_job(const ControlCommand& command) {
  return command.subject == "JOB";
}
bool takes_file(const ControlCommand& command) {
  return command.subject == "FILE";
}

std::vector<std::string> spellings_of(const std::vector<ControlFlag>& flags) {
  std::vector<std::string> all;
  for (const auto& flag : flags) {
    all.insert(all.end(), flag.spellings.begin(), flag.spellings.end());
  }
  return all;
}

// What a job or a file is called is data: it is filtered and quoted, and no shell ever expands it.
// compgen -W would: it reads its list of words as a shell reads a line.
std::string bash_script(const ControlFacts& facts) {
  std::vector<std::string> names;
  std::string cases;
  for (const auto& command : facts.commands) {
    names.push_back(command.name);
    const auto words = fmt::format("{} {}", fmt::join(spellings_of(command.flags), " "),
                                   fmt::join(spellings_of(facts.flags), " "));
    std::string subjects = ":";
    if (takes_job(command)) subjects = fmt::format("mapfile -t found < <({})", jobs_of_now);
    if (takes_file(command)) subjects = "compopt -o default 2>/dev/null";
    cases += fmt::format("    {}) if [[ $word == -* ]]; then found=({}); else {}; fi ;;\n",
                         command.name, words, subjects);
  }
  return fmt::format(
      R"(# bash completion for cpprunctl: source it, or put it into bash-completion's folder
_cpprunctl() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} at command= each quoted
  local -a found=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    case ${{COMP_WORDS[at]}} in
    --address) ((at++)) ;;
    -*) ;;
    *) command=${{COMP_WORDS[at]}}; break ;;
    esac
  done
  COMPREPLY=()
  case $command in
    "") if [[ $word == -* ]]; then found=({}); else found=({}); fi ;;
{}  esac
  for each in "${{found[@]}}"; do
    printf -v quoted %q "$each"
    [[ $each != "$word"* && $quoted != "$word"* ]] || COMPREPLY+=("$quoted")
  done
}}

complete -F _cpprunctl cpprunctl
)",
      fmt::join(spellings_of(facts.flags), " "), fmt::join(names, " "), cases);
}

std::string zsh_flags(const std::vector<ControlFlag>& flags) {
  std::string text;
  for (const auto& flag : flags) {
    for (const auto& spelling : flag.spellings) {
      const auto value = flag.value.empty() ? "" : fmt::format(":{}: ", zsh_text(flag.value));
      text += " " + shell_word(fmt::format("{}[{}]{}", spelling, zsh_text(flag.help), value));
    }
  }
  return text;
}

std::string zsh_script(const ControlFacts& facts) {
  std::string commands;
  std::string cases;
  for (const auto& command : facts.commands) {
    commands += fmt::format("      {}\n", shell_word(command.name + ":" + zsh_text(command.help)));
    std::string subject;
    if (takes_job(command)) {
      subject = " '1:job:_cpprunctl_jobs'";
    } else if (takes_file(command)) {
      subject = " '1:file:_files'";
    } else if (!command.subject.empty()) {
      subject = " " + shell_word(fmt::format("1:{}:_hosts", command.subject));
    }
    cases += fmt::format("      {}) _arguments{}{}{} ;;\n", command.name, zsh_flags(command.flags),
                         zsh_flags(facts.flags), subject);
  }
  return fmt::format(R"(#compdef cpprunctl
# zsh completion for cpprunctl: source it, or put it into a folder of fpath as _cpprunctl

_cpprunctl_jobs() {{
  local -a jobs=("${{(@f)$({})}}")
  jobs=("${{(@)jobs:#}}")
  compadd -a jobs
}}

_cpprunctl() {{
  local line state
  _arguments -C{} '1:command:->command' '*::argument:->argument'
  case $state in
    command)
      local -a commands=(
{}      )
      _describe command commands ;;
    argument)
      case $line[1] in
{}      esac ;;
  esac
}}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _cpprunctl "$@"
else
  compdef _cpprunctl cpprunctl
fi
)",
                     jobs_of_now, zsh_flags(facts.flags), commands, cases);
}

std::string fish_flags(const std::vector<ControlFlag>& flags, std::string_view condition) {
  std::string text;
  for (const auto& flag : flags) {
    text += fmt::format("complete -c cpprunctl{}", condition);
    for (const auto& spelling : flag.spellings) {
      text += spelling.starts_with("--") ? fmt::format(" -l {}", spelling.substr(2))
                                         : fmt::format(" -s {}", spelling.substr(1));
    }
    text += fmt::format("{} -d {}\n", flag.value.empty() ? "" : " -x", shell_word(flag.help));
  }
  return text;
}

std::string fish_script(const ControlFacts& facts) {
  std::string text = "# fish completion for cpprunctl\ncomplete -c cpprunctl -f\n";
  text += fish_flags(facts.flags, "");
  for (const auto& command : facts.commands) {
    text += fmt::format("complete -c cpprunctl -n __fish_use_subcommand -a {} -d {}\n",
                        command.name, shell_word(command.help));
    const auto condition = fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name);
    text += fish_flags(command.flags, condition);
    if (takes_job(command)) {
      text += fmt::format("complete -c cpprunctl{} -a '({})'\n", condition, jobs_of_now);
    }
    if (takes_file(command)) text += fmt::format("complete -c cpprunctl{} -F\n", condition);
  }
  return text;
}

std::string flag_entry(const ControlFlag& flag) {
  const auto value = flag.value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff_text(flag.value));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}.\n",
                     roff_text(fmt::format("{}", fmt::join(flag.spellings, ", "))), value,
                     roff_text(flag.help));
}

}  // namespace

std::optional<std::string> control_completion(std::string_view shell, const ControlFacts& facts) {
  if (shell == "bash") return bash_script(facts);
  if (shell == "zsh") return zsh_script(facts);
  if (shell == "fish") return fish_script(facts);
  return std::nullopt;
}

std::string control_manual(const ControlFacts& facts, std::string_view version) {
  std::string text = fmt::format(
      ".TH CPPRUNCTL 1 \"\" \"cpprunctl {}\" \"User Commands\"\n"
      ".nh\n.ad l\n.SH NAME\ncpprunctl \\- see into the jobs of cpprun, and steer them\n"
      ".SH SYNOPSIS\n.B cpprunctl\n[\\fIflags\\fR] \\fIcommand\\fR [\\fIarguments\\fR]\n"
      ".SH DESCRIPTION\nAsks the cpprun or cpprund that hosts a job's meeting, by a socket of this "
      "machine or by an address. JOB may be left out where there is one; commands that only read "
      "take the beginning of its name, all others and \\fBwait\\fR the whole name.\n.SH COMMANDS\n",
      roff_text(version));
  for (const auto& command : facts.commands) {
    std::string subject;
    if (!command.subject.empty()) {
      subject = command.needs_subject ? fmt::format(" \\fI{}\\fR", roff_text(command.subject))
                                      : fmt::format(" [\\fI{}\\fR]", roff_text(command.subject));
    }
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}.\n", roff_text(command.name), subject,
                        roff_text(command.help));
    if (command.flags.empty()) continue;
    text += ".RS\n";
    for (const auto& flag : command.flags) text += flag_entry(flag);
    text += ".RE\n";
  }
  text += ".SH OPTIONS\n";
  for (const auto& flag : facts.flags) text += flag_entry(flag);
  return text +
         ".SH \"EXIT STATUS\"\n0 done; 1 it cannot be done, or there is no such job; 2 misuse of "
         "the command line; 69 no response, so it cannot be known. \\fBwait\\fR ends with the "
         "job's "
         "own.\n"
         ".SH ENVIRONMENT\n.TP\n.B XDG_RUNTIME_DIR, TMPDIR\nWhere the sockets are looked for.\n"
         ".TP\n.B NO_COLOR\nNo colours, on a terminal either.\n"
         ".SH \"SEE ALSO\"\n.BR cpprun (1)\n";
}

}  // namespace cpprun
