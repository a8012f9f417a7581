// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/command_pages.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace completion_test {

using namespace cpprun;
using namespace cpprun::probe;

// How the shells use the scripts is tested in completion_test.sh.
TEST_CASE("the completions of every shell contain every flag") {
  Flags flags;
  const Declaration declaration(flags);
  for (const char* shell : {"bash", "zsh", "fish", "tcsh"}) {
    CAPTURE(shell);
    const auto script = completion_script(shell, declaration.program());
    REQUIRE(script.has_value());
    for (const auto& flag : declaration.facts()) {
      CHECK(script->find(flag.name) != std::string::npos);
    }
  }
  CHECK_FALSE(completion_script("ksh", declaration.program()));
}

TEST_CASE("completions are printed for a known shell, despite other errors") {
  CHECK(std::get<CliText>(read({"--frobnicate", "--print-completion=bash"}))
            .text.starts_with("# bash completion for cpprun"));
  CHECK(diagnostics({"--print-completion=ksh", "x"}) ==
        Words{"--print-completion=ksh is not one of bash, zsh, fish, tcsh"});
}

}  // namespace completion_test
