// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/daemon_options.h"

#include <doctest/doctest.h>

namespace daemon_pages_test {

using namespace cpprun;

namespace {

const std::vector<DaemonFlag> flags = {
    {.spellings = {"-h", "--help"},
     .value = {},
     .standard = {},
     .choices = {},
     .help = "It's help"},
    {.spellings = {"--port"},
     .value = "INT",
     .standard = "29400",
     .choices = {},
     .help = "Port [any]: where"},
    {.spellings = {"--level"},
     .value = "WORD",
     .standard = "info",
     .choices = {"debug", "info"},
     .help = "How much"},
    {.spellings = {"--secrets"}, .value = "DIR", .standard = {}, .choices = {}, .help = "Who"},
    {.spellings = {"--host"}, .value = "ADDRESS", .standard = {}, .choices = {}, .help = "Where"}};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the man page has every flag with its choices and its default") {
  const auto page = daemon_manual(flags, "1.2-3");
  CHECK(page.starts_with(".TH CPPRUND 8 \"\" \"cpprund 1.2\\-3\""));
  CHECK(has(page, "\\fB\\-h, \\-\\-help\\fR\nIt's help.\n"));
  CHECK(has(page, "\\fB\\-\\-port\\fR \\fIINT\\fR\nPort [any]: where. Default: 29400.\n"));
  CHECK(has(page, "How much. One of debug, info. Default: info.\n"));
}

TEST_CASE("the completion of each shell offers the choices of a flag") {
  const auto bash = daemon_completion("bash", flags);
  REQUIRE(bash);
  CHECK(has(*bash, "--level) mapfile -t COMPREPLY < <(compgen -W 'debug info' -- \"$word\") ;;"));
  CHECK(has(*bash, "--secrets) mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;"));
  CHECK(has(*bash, "--host) mapfile -t COMPREPLY < <(compgen -A hostname -- \"$word\") ;;"));
  CHECK(has(*bash, "compgen -W '-h --help --port --level --secrets --host'"));
  const auto zsh = daemon_completion("zsh", flags);
  REQUIRE(zsh);
  CHECK(has(*zsh, "'--help[It'\\''s help]'"));
  CHECK(has(*zsh, "'--port=[Port \\[any\\]\\: where]:INT: '"));
  CHECK(has(*zsh, "'--level=[How much]:WORD:(debug info)'"));
  const auto fish = daemon_completion("fish", flags);
  REQUIRE(fish);
  CHECK(has(*fish, "complete -c cpprund -s h -l help -d 'It'\\''s help'\n"));
  CHECK(has(*fish, " -l level -x -a 'debug info' -d 'How much'\n"));
  CHECK_FALSE(daemon_completion("tcsh", flags));
}

}  // namespace daemon_pages_test
