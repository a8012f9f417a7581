// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/command_pages.h"

#include <doctest/doctest.h>

namespace command_pages_test {

using namespace cpprun;

namespace {

ProgramFacts daemon() {
  ProgramFacts program{.name = "toold", .manual_section = 8};
  add_flag(program.flags, "-h,--help", "", "It's help", nullptr);
  add_flag(program.flags, "--port", "INT", "Port [any]: where", nullptr).standard = "29400";
  auto& level = add_flag(program.flags, "--level", "WORD", "How much", nullptr);
  level.choices = {"debug", "info"};
  level.only_choices = true;
  level.standard = "info";
  add_flag(program.flags, "--secrets", "DIR", "Who", nullptr);
  add_flag(program.flags, "--host", "ADDRESS", "Where", nullptr);
  return program;
}

CommandFacts command(std::string_view name, std::string_view help, const char* subject,
                     bool is_required = false) {
  CommandFacts command{.name = name, .help = help};
  command.subjects.push_back(
      {.name = subject, .value = subject, .help = "It", .is_required = is_required});
  return command;
}

ProgramFacts control() {
  ProgramFacts program{.name = "toolctl"};
  add_flag(program.flags, "--json", "", "JSON: for scripts", nullptr);
  add_flag(program.flags, "--address", "HOST:PORT", "Ask there", nullptr);
  program.commands = {command("status", "Show one job", "JOB"),
                      command("events", "What's new", "JOB"), command("keygen", "Make", "FILE"),
                      command("drain", "Leave", "NODE|HOST", true)};
  add_flag(program.commands[1].flags, "-f,--follow", "", "Go on", nullptr);
  add_flag(program.commands[3].flags, "--reason", "TEXT", "Why [it] is", nullptr);
  return program;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the help wraps long lines, and adds choices and defaults") {
  const auto help = help_page(daemon(), nullptr);
  CHECK(help.starts_with("Usage: toold "));
  CHECK(has(help, "\nFlags:\n  -h, --help                            It's help\n"));
  CHECK(
      has(help, "  --level=WORD                          How much: debug, info (default: info)\n"));
  const auto all = control();
  CHECK(has(help_page(all, nullptr), "\nCommands:\n  status                                Show"));
  CHECK(help_page(all, &all.commands[3]).starts_with("Usage: toolctl drain [flags] NODE|HOST\n"));
  FlagFacts flag{.name = "long", .help = "word word word"};
  std::string text;
  for (int count = 0; count < 30; ++count) text += "word ";
  flag.help = text;
  CHECK(has(flag_line(flag), "word\n                                        word word"));
}

TEST_CASE("the man page has every flag with its choices and its default") {
  const auto page = manual_page(daemon(), "1.2-3");
  CHECK(page.starts_with(".TH TOOLD 8 \"\" \"toold 1.2\\-3\" \"System Administration\""));
  CHECK(has(page, "\\fB\\-h, \\-\\-help\\fR\nIt's help.\n"));
  CHECK(has(page, "\\fB\\-\\-port\\fR \\fIINT\\fR\nPort [any]: where. Default: 29400.\n"));
  CHECK(has(page, "How much. One of debug, info. Default: info.\n"));
}

TEST_CASE("the completion of each shell offers the choices of a flag") {
  const auto bash = completion_script("bash", daemon());
  REQUIRE(bash);
  CHECK(has(*bash, "--level) found=(debug info) ;;"));
  CHECK(has(*bash, "mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;"));
  CHECK(has(*bash, "--host) mapfile -t found < <(compgen -A hostname -- \"$word\") ;;"));
  CHECK(has(*bash, "found=(-h --help --port --level --secrets --host)"));
  const auto zsh = completion_script("zsh", daemon());
  REQUIRE(zsh);
  CHECK(has(*zsh, "'(-h --help)--help[It'\\''s help]'"));
  CHECK(has(*zsh, "'--port=[Port \\[any\\]\\: where]:INT: '"));
  CHECK(has(*zsh, "'--level=[How much]:WORD:(debug info)'"));
  const auto fish = completion_script("fish", daemon());
  REQUIRE(fish);
  CHECK(has(*fish, "complete -c toold -l help -s h -d 'It'\\''s help'\n"));
  CHECK(has(*fish, " -l level -x -a 'debug info' -d 'How much'\n"));
  const auto tcsh = completion_script("tcsh", daemon());
  REQUIRE(tcsh);
  CHECK(has(*tcsh, " 'c/--level=/(debug info)/' 'c/--secrets=/d/'"));
  CHECK_FALSE(completion_script("ksh", daemon()));
}

TEST_CASE("bash completes commands, their flags, and the known jobs") {
  const auto script = completion_script("bash", control());
  REQUIRE(script);
  CHECK(has(*script, "then found=(--json --address); else found=(status events keygen drain); fi"));
  CHECK(has(*script,
            "events) if [[ $word == -* ]]; then found=(-f --follow --json --address); else mapfile "
            "-t found < <(cpprunctl ls --names 2>/dev/null); fi ;;"));
  CHECK(has(*script, "then found=(--reason --json --address); else mapfile -t found < <(compgen "));
  CHECK(has(*script, "else compopt -o default 2>/dev/null; fi"));
  // A shell must not interpret the names of jobs and files.
  CHECK_FALSE(has(*script, "compgen -W"));
  CHECK_FALSE(has(*script, "eval"));
}

TEST_CASE("zsh and fish get a description of each command, with special characters escaped") {
  const auto zsh = completion_script("zsh", control());
  REQUIRE(zsh);
  CHECK(has(*zsh, "'events:What'\\''s new'"));
  CHECK(has(*zsh, "'--reason=[Why \\[it\\] is]:TEXT: '"));
  CHECK(has(*zsh, "'1:JOB:_cpprunctl_jobs'"));
  CHECK(has(*zsh, "'1:NODE|HOST:_hosts'"));
  CHECK(has(*zsh, "'1:FILE:_files'"));
  const auto fish = completion_script("fish", control());
  REQUIRE(fish);
  CHECK(has(*fish, "-n '__fish_seen_subcommand_from events' -l follow -s f -d 'Go on'"));
  CHECK(has(*fish, "-n '__fish_seen_subcommand_from keygen' -r -F\n"));
  CHECK(has(*fish, "-l address -x -a '(__fish_print_hostnames)' -d 'Ask there'"));
}

TEST_CASE("the manual page has every command and flag, and no dash is a hyphen") {
  const auto page = manual_page(control(), "1.2-3");
  CHECK(has(page, "\"toolctl 1.2\\-3\" \"User Commands\""));
  CHECK(has(page, "\\fBstatus\\fR [\\fIJOB\\fR]\nShow one job."));
  CHECK(has(page, "\\fBdrain\\fR \\fINODE|HOST\\fR\n"));
  CHECK(has(page, "\\fB\\-f, \\-\\-follow\\fR\nGo on."));
  CHECK(has(page, "\\fB\\-\\-address\\fR \\fIHOST:PORT\\fR\n"));
}

}  // namespace command_pages_test
