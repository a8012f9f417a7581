// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/declaration.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/launcher/cli/cli_probe.h"

namespace declaration_test {

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("each flag has its own name, letter and variables, a group and a line of help") {
  Flags flags;
  const Declaration declaration(flags);
  std::set<std::string> taken;
  const auto take = [&](const std::string& name) { return taken.insert(name).second; };
  for (const auto& flag : declaration.facts()) {
    CAPTURE(flag.name);
    CHECK(take(flag.name));
    if (flag.letter != 0) CHECK(take(std::string(1, flag.letter)));
    for (const auto& variable : flag.variables) CHECK(take(variable));
    CHECK_FALSE(flag.group.empty());
    CHECK_FALSE(flag.help.empty());
    CHECK(declaration.find(flag.name) == &flag);
  }
}

TEST_CASE("a member gets its value and the source of it") {
  Flags flags;
  Declaration declaration(flags);
  Diagnostics diagnostics;
  CHECK(flags.node_rank.source == "--node-rank");
  declaration.tell(*declaration.find("node-rank"), "7", SettingOrigin::environment,
                   "PET_NODE_RANK");
  declaration.tell(*declaration.find("module"), "true", SettingOrigin::typed, "--module");
  declaration.resolve(diagnostics);
  CHECK(diagnostics.empty());
  CHECK(flags.node_rank.value == 7);
  CHECK(flags.node_rank.source == "PET_NODE_RANK");
  CHECK(is_on(flags.module));
  CHECK_FALSE(is_on(flags.no_python));
  CHECK_FALSE(flags.role.given);
}

TEST_CASE("every flag is taken, all of them at once") {
  Flags flags;
  Declaration declaration(flags);
  Diagnostics diagnostics;
  for (const auto& flag : declaration.facts()) {
    std::string value = flag.name == "log-max-bytes" ? "64M" : "1";
    if (flag.only_choices) value = flag.choices.front();
    declaration.tell(flag, flag.takes_value() ? value : "true", SettingOrigin::typed,
                     "--" + flag.name);
  }
  declaration.resolve(diagnostics);
  CHECK(diagnostics.sentences() == Words{});
  CHECK(flags.redirects.value);
  CHECK(is_on(flags.version));
}

TEST_CASE("the source with precedence wins, and its error does not hide the next one") {
  Flags flags;
  Declaration declaration(flags);
  Diagnostics diagnostics;
  declaration.tell(*declaration.find("max-restarts"), "3", SettingOrigin::environment,
                   "PET_MAX_RESTARTS");
  declaration.tell(*declaration.find("max-restarts"), "x", SettingOrigin::typed, "--max-restarts");
  declaration.tell(*declaration.find("module"), "perhaps", SettingOrigin::file, "f:1: module");
  declaration.tell(*declaration.find("nnodes"), "0", SettingOrigin::typed, "--nnodes");
  declaration.resolve(diagnostics);
  CHECK(diagnostics.sentences() ==
        Words{"--nnodes=0 is neither a number of nodes, such as 2, nor a range, such as 2:4",
              "f:1: module=perhaps is neither true nor false",
              "--max-restarts=x is not a whole number of at least 0"});
  CHECK(flags.max_restarts.value == std::nullopt);
}

TEST_CASE("text stays as it was typed, with brackets, quotes and braces") {
  for (const char* text : {"[x]", "[a,b]", "{}", "\"q\"", "'q'", "%%", " x ", "\\n", "-", "--"}) {
    CAPTURE(text);
    CHECK(good({std::string("--log-line-prefix-template=") + text, "x"}).logs.prefix_template ==
          text);
  }
}

TEST_CASE("an empty value is an error except for flags for which torchrun accepts it") {
  Flags probe;
  const Declaration declared(probe);
  for (const auto& facts : declared.facts()) {
    if (!facts.takes_value()) continue;
    CAPTURE(facts.name);
    Flags flags;
    Declaration declaration(flags);
    Diagnostics diagnostics;
    declaration.tell(*declaration.find(facts.name), "", SettingOrigin::typed, "--" + facts.name);
    declaration.resolve(diagnostics);
    const Words wrong{"--" + facts.name +
                      ": empty value; check that the variable used for the value is set, or remove "
                      "the flag"};
    CHECK(diagnostics.sentences() == (facts.may_be_empty ? Words{} : wrong));
  }
  CHECK(good({"--rdzv-endpoint=", "--rdzv_conf", "", "--local-ranks-filter=", "--log-dir=", "x"}) ==
        good({"x"}));
  CHECK(good({"x"}, {{"PET_RDZV_ID", ""}, {"PET_MAX_RESTARTS", ""}}) == good({"x"}));
}

}  // namespace declaration_test
