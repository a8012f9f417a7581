// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/table.h"

#include <doctest/doctest.h>

namespace table_test {

using namespace cpprun;

namespace {

const Table two_hosts{.columns = {{.title = "N", .is_number = true},
                                  {.title = "HOST", .gives_way = true},
                                  {.title = "STATE"}},
                      .rows = {{{"0"}, {"alpha"}, {"running", Tint::good}},
                               {{"10"}, {"a-very-long-name"}, {"lost", Tint::bad}}}};

}  // namespace

TEST_CASE("columns have the width of their content, and numbers are aligned to the right") {
  const auto lines = lines_of(two_hosts, {});
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == " N  HOST              STATE");
  CHECK(lines[1] == " 0  alpha             running");
  CHECK(lines[2] == "10  a-very-long-name  lost");
}

TEST_CASE("on a narrow terminal the flexible columns are cut") {
  const auto lines = lines_of(two_hosts, {.width = 20});
  CHECK(lines[1] == " 0  alpha    running");
  CHECK(lines[2] == "10  a-very…  lost");
  for (const auto& line : lines_of(two_hosts, {.width = 5})) CHECK(width_of(line) <= 5);
}

TEST_CASE("colour is for terminals only, and changes no width") {
  const auto lines = lines_of(two_hosts, {.width = 80, .has_colour = true});
  CHECK(lines[1].find("\x1b[32mrunning\x1b[0m") != std::string::npos);
  CHECK(lines_of(two_hosts, {.width = 80})[1].find('\x1b') == std::string::npos);
}

TEST_CASE("untrusted names stay on one line of a table") {
  const Table table{.columns = {{.title = "HOST"}, {.title = "X"}},
                    .rows = {{{"a\nb\x1b[2J"}, {"1"}}, {{"Zürich"}, {"2"}}}};
  const auto lines = lines_of(table, {});
  CHECK(lines[1] == "a?b?[2J  1");
  CHECK(lines[2] == "Zürich   2");
}

TEST_CASE("table text is cut between two characters") {
  CHECK(clipped("Zürich", 3) == "Zü…");
  CHECK(clipped("Zürich", 6) == "Zürich");
  CHECK(clipped("Zürich", 0) == "Zürich");
  CHECK(width_of("Zü…") == 3);
}

}  // namespace table_test
