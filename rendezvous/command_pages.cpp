// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/command_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "proto/text.h"

namespace cpprun {

namespace {

std::vector<std::string> spellings(const FlagFacts& flag) {
  std::vector<std::string> all;
  if (flag.letter != 0) all.push_back(fmt::format("-{}", flag.letter));
  all.push_back("--" + flag.name);
  return all;
}

std::vector<std::string> spellings(const std::vector<FlagFacts>& flags) {
  std::vector<std::string> all;
  for (const auto& flag : flags) {
    for (auto& each : spellings(flag)) all.push_back(std::move(each));
  }
  return all;
}

// Whether its choices are to be added to its help, which does not list them itself.
bool needs_list(const FlagFacts& flag) {
  return flag.only_choices && flag.help.find(':') == std::string_view::npos;
}

std::string described(const FlagFacts& flag) {
  if (!needs_list(flag)) return std::string(flag.help);
  return fmt::format("{}: {}", flag.help, fmt::join(flag.choices, ", "));
}

// A name and its explanation, which is wrapped and starts in the same column everywhere.
std::string help_entry(const std::string& name, std::string_view explanation,
                       std::size_t line_max = help_line_max) {
  constexpr std::size_t column = 39;
  std::string line = "  " + name;
  if (line.size() + 1 > column) line += '\n' + std::string(column, ' ');
  line.resize(std::max(line.size(), column), ' ');
  std::string text;
  for (const std::string_view word : split(explanation, ' ')) {
    const auto width = line.size() - (line.rfind('\n') + 1);
    if (width + 1 + word.size() > line_max) {
      text += line + '\n';
      line = std::string(column, ' ');
    }
    line += ' ';
    line += word;
  }
  return text + line + '\n';
}

std::string subjects_of(const CommandFacts& command) {
  std::string text;
  for (const auto& subject : command.subjects) {
    text +=
        subject.is_required ? fmt::format(" {}", subject.name) : fmt::format(" [{}]", subject.name);
  }
  return text;
}

}  // namespace

void add_page_flags(std::vector<FlagFacts>& flags) {
  add_flag(flags, "-h,--help", "", "Print this help message and exit", nullptr);
  add_flag(flags, "--version", "", "Show the version", nullptr);
  add_flag(flags, "--print-completion", "SHELL", "Print a completion script", nullptr)
      .only({completed_shells.begin(), completed_shells.end()});
  add_flag(flags, "--print-man", "", "Print a manual page", nullptr);
}

std::optional<std::string> requested_page(const ProgramFacts& program, const TypedWords& words,
                                          std::string_view version) {
  if (words.last("help") != nullptr) return help_page(program, words.command);
  if (words.last("version") != nullptr) return fmt::format("{} {}\n", program.name, version);
  if (words.last("print-man") != nullptr) return manual_page(program, version);
  const auto* const shell = words.last("print-completion");
  return shell == nullptr ? std::nullopt : completion_script(shell->value, program);
}

// --- help ----------------------------------------------------------------------------------------

std::string help_start(const ProgramFacts& program) {
  return fmt::format("Usage: {} {}\n\n{}\n", program.name, program.synopsis, program.about);
}

std::string flag_line(const FlagFacts& flag, std::size_t line_max) {
  auto name = fmt::format("{}", fmt::join(spellings(flag), ", "));
  if (flag.needs_value()) {
    name += fmt::format("={}", flag.value);
  } else if (flag.takes_value()) {
    name += fmt::format("[={}]", flag.value);
  }
  auto help = described(flag);
  if (!flag.standard.empty() && help.find("default") == std::string::npos) {
    help += fmt::format(" (default: {})", flag.standard);
  }
  return help_entry(name, help, line_max);
}

std::string flag_lines(const std::vector<FlagFacts>& flags,
                       const std::function<bool(const FlagFacts&)>& wanted, std::size_t line_max) {
  std::string text;
  std::string_view group;
  for (const auto& flag : flags) {
    if (!wanted(flag)) continue;
    if (flag.group != group) text += fmt::format("\n{}:\n", flag.group);
    group = flag.group;
    text += flag_line(flag, line_max);
  }
  return text;
}

std::string help_page(const ProgramFacts& program, const CommandFacts* command) {
  const auto all = [](const FlagFacts&) { return true; };
  if (command != nullptr) {
    auto text = fmt::format("Usage: {} {} [flags]{}\n\n{}\n", program.name, command->name,
                            subjects_of(*command), command->help);
    if (!command->subjects.empty()) text += '\n';
    for (const auto& subject : command->subjects) text += help_entry(subject.name, subject.help);
    if (!command->flags.empty()) text += "\nFlags:\n" + flag_lines(command->flags, all);
    return text +
           fmt::format("\n{} --help lists the flags that all commands accept.\n\nExample:\n  {}\n",
                       program.name, command->example);
  }
  auto text = help_start(program) + "\nFlags:\n" + flag_lines(program.flags, all);
  if (!program.commands.empty()) text += "\nCommands:\n";
  for (const auto& each : program.commands) {
    text += help_entry(
        each.alias.empty() ? std::string(each.name) : fmt::format("{}, {}", each.name, each.alias),
        each.help);
  }
  return text + std::string(program.help_end);
}

// --- the manual page -----------------------------------------------------------------------------

namespace {

std::string manual_entry(const FlagFacts& flag) {
  const auto value = roff_text(flag.value);
  auto text = fmt::format(".TP\n\\fB{}\\fR{}\n{}.",
                          roff_text(fmt::format("{}", fmt::join(spellings(flag), ", "))),
                          flag.needs_value()   ? fmt::format(" \\fI{}\\fR", value)
                          : flag.takes_value() ? fmt::format("[=\\fI{}\\fR]", value)
                                               : "",
                          roff_text(flag.help));
  if (needs_list(flag)) {
    text += fmt::format(" One of {}.", roff_text(fmt::format("{}", fmt::join(flag.choices, ", "))));
  }
  if (!flag.standard.empty()) text += fmt::format(" Default: {}.", roff_text(flag.standard));
  if (!flag.variables.empty()) {
    text += fmt::format(" Environment: {}.", fmt::join(flag.variables, ", "));
  }
  return text + '\n';
}

std::string manual_entry(const CommandFacts& command) {
  std::string subjects;
  for (const auto& subject : command.subjects) {
    const auto name = fmt::format("\\fI{}\\fR", roff_text(subject.name));
    subjects += subject.is_required ? " " + name : fmt::format(" [{}]", name);
  }
  auto text = fmt::format(".TP\n\\fB{}\\fR{}\n{}.\n", roff_text(command.name), subjects,
                          roff_text(command.help));
  if (command.flags.empty()) return text;
  text += ".RS\n";
  for (const auto& flag : command.flags) text += manual_entry(flag);
  return text + ".RE\n";
}

}  // namespace

std::string manual_page(const ProgramFacts& program, std::string_view version) {
  std::string title(program.name);
  std::ranges::transform(title, title.begin(),
                         [](unsigned char byte) { return std::toupper(byte); });
  auto text = fmt::format(
      ".TH {} {} \"\" \"{} {}\" \"{}\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n.B {}\n{}\n.SH DESCRIPTION\n{}\n",
      title, program.manual_section, program.name, roff_text(version),
      program.manual_section == 8 ? "System Administration" : "User Commands", program.name,
      program.summary, program.name, roff_text(program.synopsis), program.manual_about);
  if (!program.commands.empty()) text += ".SH COMMANDS\n";
  for (const auto& command : program.commands) text += manual_entry(command);
  text += ".SH OPTIONS\n";
  std::string_view group;
  for (const auto& flag : program.flags) {
    if (flag.group != group) text += fmt::format(".SS \"{}\"\n", flag.group);
    group = flag.group;
    text += manual_entry(flag);
  }
  text += program.manual_end;
  if (!program.examples.empty()) text += ".SH EXAMPLES\n";
  for (const auto& example : program.examples) {
    text += fmt::format(".PP\n{}:\n.PP\n.nf\n    {}\n.fi\n", example.purpose,
                        roff_text(example.command));
  }
  return text + fmt::format(".SH \"SEE ALSO\"\n{}\n", program.see_also);
}

// --- completions ---------------------------------------------------------------------------------

namespace {

constexpr std::string_view jobs_of_now = "cpprunctl ls --names 2>/dev/null";

// What each shell offers as the value of a flag, or as an argument of a command.
struct Offer {
  std::string bash;  // a command that puts the candidates into `found`; empty: no candidates
  std::string zsh;   // an action of _arguments
  std::string fish;  // arguments of complete
  std::string tcsh;  // a list or a letter of complete; empty: no candidates
};

// bash quotes file and directory names itself. tcsh would expand the names of jobs.
Offer offer_for(const FlagFacts& flag) {
  if (!flag.choices.empty()) {
    const auto list = fmt::format("({})", fmt::join(flag.choices, " "));
    return {.bash = "found=" + list,
            .zsh = list,
            .fish = fmt::format(" -x -a '{}'", fmt::join(flag.choices, " ")),
            .tcsh = list};
  }
  if (flag.value == "FILE") {
    return {"compopt -o default 2>/dev/null", "_files", " -r -F", "f"};
  }
  if (flag.value == "DIR") {
    return {"compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$word\")",
            "_files -/", " -x -a '(__fish_complete_directories)'", "d"};
  }
  if (flag.value == "JOB") {
    return {fmt::format("mapfile -t found < <({})", jobs_of_now), "_cpprunctl_jobs",
            fmt::format(" -x -a '({})'", jobs_of_now), ""};
  }
  if (flag.value.find("HOST") != std::string_view::npos || flag.value == "ADDRESS") {
    return {"mapfile -t found < <(compgen -A hostname -- \"$word\")", "_hosts",
            " -x -a '(__fish_print_hostnames)'", ""};
  }
  return {"", " ", " -x", ""};
}

// Offers the flags to a word with a dash, and what `otherwise` offers to any other.
std::string bash_words(const std::vector<std::string>& flags, const std::string& otherwise) {
  return fmt::format("if [[ $word == -* ]]; then found=({}); else {}; fi", fmt::join(flags, " "),
                     otherwise.empty() ? ":" : otherwise);
}

// All flags of the program and its commands that need a value, each name once.
std::vector<const FlagFacts*> flags_with_value(const ProgramFacts& program) {
  std::vector<const FlagFacts*> all;
  std::set<std::string_view> names;
  const auto add = [&](const std::vector<FlagFacts>& flags) {
    for (const auto& flag : flags) {
      if (flag.needs_value() && names.insert(flag.name).second) all.push_back(&flag);
    }
  };
  add(program.flags);
  for (const auto& command : program.commands) add(command.flags);
  return all;
}

// bash splits words at each "=" and ":", as in --flag=value and http://a:2379. The candidates are
// filtered here and not by compgen -W, which parses its list like a shell line and would expand
// names.
std::string bash_script(const ProgramFacts& program) {
  std::vector<std::string> with_value;
  std::string values;
  for (const auto* flag : flags_with_value(program)) {
    const auto names = spellings(*flag);
    with_value.insert(with_value.end(), names.begin(), names.end());
    const auto offer = offer_for(*flag).bash;
    if (!offer.empty()) values += fmt::format("  {}) {} ;;\n", fmt::join(names, "|"), offer);
  }
  const auto shared = spellings(program.flags);
  std::vector<std::string_view> commands;
  std::string words;
  for (const auto& command : program.commands) {
    commands.push_back(command.name);
    auto flags = spellings(command.flags);
    flags.insert(flags.end(), shared.begin(), shared.end());
    const auto subject = command.subjects.empty() ? "" : offer_for(command.subjects.front()).bash;
    words += fmt::format("    {}) {} ;;\n", command.name, bash_words(flags, subject));
  }
  // A program without commands and arguments takes only flags.
  const auto first = program.commands.empty() ? fmt::format("found=({})", fmt::join(shared, " "))
                                              : fmt::format("found=({})", fmt::join(commands, " "));
  return fmt::format(
      R"(# bash completion for {0}: source it, or put it into bash-completion's directory
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} at=1 flag= command= each quoted
  local -a found=()
  COMPREPLY=()
  [[ $word != "=" ]] || word=
  while ((at < COMP_CWORD)); do
    flag=${{COMP_WORDS[at]}}
    [[ $flag != --* ]] || flag=${{flag//_/-}}
    ((at += 1))
    case $flag in
    {1})
      [[ ${{COMP_WORDS[at]}} != "=" ]] || ((at += 1))
      ((at < COMP_CWORD)) || break
      ((at += 1)) ;;
    -*) ;;
    *) {2} ;;
    esac
    while ((at < COMP_CWORD)) &&
      [[ ${{COMP_WORDS[at]}} == [:=] || ${{COMP_WORDS[at - 1]}} == [:=] ]]; do
      ((at += 1))
    done
    flag=
  done
  case $flag in
{3}  "") case $command in
    "") {4} ;;
{5}    esac ;;
  esac
  for each in "${{found[@]}}"; do
    printf -v quoted %q "$each"
    [[ $each != "$word"* && $quoted != "$word"* ]] || COMPREPLY+=("$quoted")
  done
}}

complete {6}-F _{0} {0}
)",
      program.name, fmt::join(with_value, "|"),
      program.launches_script ? "return" : "command=${command:-$flag}", values,
      bash_words(shared, program.launches_script ? "" : first), words,
      program.launches_script ? "-o default " : "");
}

// Arguments of zsh's _arguments, each after `between`.
std::string zsh_flags(const std::vector<FlagFacts>& flags, std::string_view between) {
  std::string text;
  for (const auto& flag : flags) {
    auto rest = fmt::format("[{}]", zsh_text(flag.help));
    if (flag.takes_value())
      rest += fmt::format("{}:{}:{}", flag.needs_value() ? "" : ":", zsh_text(flag.value),
                          offer_for(flag).zsh);
    const auto names = spellings(flag);
    for (const auto& name : names) {
      const auto others = names.size() > 1 ? fmt::format("({})", fmt::join(names, " ")) : "";
      const auto* const ending = !flag.takes_value()      ? ""
                                 : !flag.needs_value()    ? "=-"
                                 : name.starts_with("--") ? "="
                                                          : "+";
      text += between;
      text += shell_word(others + name + ending + rest);
    }
  }
  return text;
}

std::string zsh_subjects(const CommandFacts& command) {
  std::string text;
  for (std::size_t at = 0; at < command.subjects.size(); ++at) {
    const auto& subject = command.subjects[at];
    text += ' ';
    text +=
        shell_word(fmt::format("{}:{}:{}", at + 1, zsh_text(subject.name), offer_for(subject).zsh));
  }
  return text;
}

// The body of the function of a program with commands.
std::string zsh_commands(const ProgramFacts& program) {
  std::string commands;
  std::string cases;
  for (const auto& command : program.commands) {
    commands += fmt::format("      {}\n",
                            shell_word(fmt::format("{}:{}", command.name, zsh_text(command.help))));
    cases +=
        fmt::format("      {}) _arguments{}{}{} ;;\n", command.name, zsh_flags(command.flags, " "),
                    zsh_flags(program.flags, " "), zsh_subjects(command));
  }
  return fmt::format(R"(  local line state
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
)",
                     zsh_flags(program.flags, " "), commands, cases);
}

std::string zsh_script(const ProgramFacts& program) {
  constexpr std::string_view between = " \\\n    ";
  std::string body = zsh_commands(program);
  if (program.commands.empty()) {
    body = fmt::format("  _arguments -S{}{}\n", zsh_flags(program.flags, between),
                       program.launches_script
                           ? fmt::format("{0}'1:script:_files'{0}'*::arguments:_files'", between)
                           : "");
  }
  std::string jobs;
  if (body.find("_cpprunctl_jobs") != std::string::npos) {
    jobs = fmt::format(R"(_cpprunctl_jobs() {{
  local -a jobs=("${{(@f)$({})}}")
  jobs=("${{(@)jobs:#}}")
  compadd -a jobs
}}

)",
                       jobs_of_now);
  }
  return fmt::format(R"(#compdef {0}
# zsh completion for {0}: source it, or put it into a directory of fpath as _{0}

{1}_{0}() {{
{2}}}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _{0} "$@"
else
  compdef _{0} {0}
fi
)",
                     program.name, jobs, body);
}

std::string fish_flags(const std::vector<FlagFacts>& flags, std::string_view start) {
  std::string text;
  for (const auto& flag : flags) {
    text += start;
    text += fmt::format(" -l {}", flag.name);
    if (flag.letter != 0) text += fmt::format(" -s {}", flag.letter);
    if (flag.needs_value()) text += offer_for(flag).fish;
    text += fmt::format(" -d {}\n", shell_word(flag.help));
  }
  return text;
}

std::string fish_script(const ProgramFacts& program) {
  const auto start = fmt::format("complete -c {}", program.name);
  auto text = fmt::format("# fish completion for {}\n", program.name);
  if (!program.launches_script) text += start + " -f\n";
  text += fish_flags(program.flags, start);
  for (const auto& command : program.commands) {
    text += fmt::format("{} -n __fish_use_subcommand -a {} -d {}\n", start, command.name,
                        shell_word(command.help));
    const auto within = fmt::format("{} -n '__fish_seen_subcommand_from {}'", start, command.name);
    text += fish_flags(command.flags, within);
    if (command.subjects.empty()) continue;
    text += within + offer_for(command.subjects.front()).fish + '\n';
  }
  return text;
}

// Names of jobs are not offered: tcsh would expand them.
std::string tcsh_script(const ProgramFacts& program) {
  auto text = fmt::format("# tcsh completion for {0}\ncomplete {0}", program.name);
  for (const auto* flag : flags_with_value(program)) {
    const auto offer = offer_for(*flag).tcsh;
    if (!offer.empty()) text += fmt::format(" 'c/--{}=/{}/'", flag->name, offer);
  }
  std::set<std::string> names;
  const auto add = [&](const std::vector<FlagFacts>& flags) {
    for (const auto& flag : flags) names.insert(flag.name + (flag.takes_value() ? "=" : ""));
  };
  add(program.flags);
  std::vector<std::string_view> commands;
  for (const auto& command : program.commands) {
    add(command.flags);
    commands.push_back(command.name);
  }
  text += fmt::format(" 'c/--/({})//'", fmt::join(names, " "));
  if (!commands.empty()) text += fmt::format(" 'p/1/({})/'", fmt::join(commands, " "));
  return text + (program.launches_script ? " 'p/*/f/'\n" : "\n");
}

}  // namespace

std::optional<std::string> completion_script(std::string_view shell, const ProgramFacts& program) {
  if (shell == "bash") return bash_script(program);
  if (shell == "zsh") return zsh_script(program);
  if (shell == "fish") return fish_script(program);
  if (shell == "tcsh") return tcsh_script(program);
  return std::nullopt;
}

}  // namespace cpprun
