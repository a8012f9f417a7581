// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/command_line.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace command_facts_test {

using namespace cpprun;

namespace {

const ControlFacts facts{
    .flags = {{{"--json"}, "", "JSON: for scripts"}, {{"--address"}, "HOST:PORT", "Ask there"}},
    .commands = {{"status", "Show one job", "JOB", false, {}},
                 {"events", "What's new", "JOB", false, {{{"-f", "--follow"}, "", "Go on"}}},
                 {"keygen", "Make", "FILE", false, {}},
                 {"drain", "Leave", "NODE|HOST", true, {{{"--reason"}, "TEXT", "Why [it] is"}}}}};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("bash completes commands, their flags, and the known jobs") {
  const auto script = control_completion("bash", facts);
  REQUIRE(script);
  CHECK(has(*script, "then found=(--json --address); else found=(status events keygen drain); fi"));
  CHECK(has(*script,
            "events) if [[ $word == -* ]]; then found=(-f --follow --json --address); else mapfile "
            "-t found < <(cpprunctl ls --names 2>/dev/null); fi ;;"));
  CHECK(has(*script, "then found=(--reason --json --address); else :; fi"));
  CHECK(has(*script, "else compopt -o default 2>/dev/null; fi"));
  // A shell must not interpret the names of jobs and files.
  CHECK_FALSE(has(*script, "compgen -W"));
  CHECK_FALSE(has(*script, "eval"));
}

TEST_CASE("zsh and fish get a description of each command, with special characters escaped") {
  const auto zsh = control_completion("zsh", facts);
  REQUIRE(zsh);
  CHECK(has(*zsh, "'events:What'\\''s new'"));
  CHECK(has(*zsh, "'--reason[Why \\[it\\] is]:TEXT: '"));
  CHECK(has(*zsh, "'1:job:_cpprunctl_jobs'"));
  CHECK(has(*zsh, "'1:NODE|HOST:_hosts'"));
  CHECK(has(*zsh, "'1:file:_files'"));
  const auto fish = control_completion("fish", facts);
  REQUIRE(fish);
  CHECK(has(*fish, "-n '__fish_seen_subcommand_from events' -s f -l follow -d 'Go on'"));
  CHECK(has(*fish, "-n '__fish_seen_subcommand_from keygen' -F\n"));
  CHECK(has(*fish, "-l address -x -d 'Ask there'"));
  CHECK_FALSE(control_completion("tcsh", facts));
}

TEST_CASE("the manual page has every command and flag, and no dash is a hyphen") {
  const auto page = control_manual(facts, "1.2-3");
  CHECK(has(page, "\"cpprunctl 1.2\\-3\""));
  CHECK(has(page, "\\fBstatus\\fR [\\fIJOB\\fR]\nShow one job."));
  CHECK(has(page, "\\fBdrain\\fR \\fINODE|HOST\\fR\n"));
  CHECK(has(page, "\\fB\\-f, \\-\\-follow\\fR\nGo on."));
  CHECK(has(page, "\\fB\\-\\-address\\fR \\fIHOST:PORT\\fR\n"));
}

}  // namespace command_facts_test
