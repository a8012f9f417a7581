// SPDX-License-Identifier: BSD-3-Clause
// The house rules over the real tree. Each rule is tested on snippets in tidy_rules_test.cpp.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "tests/tidy/figures.h"
#include "tests/tidy/house.h"
#include "tests/tidy/prose.h"

namespace {

void show_words(const cpprun::tidy::Tree& tree) {
  for (const auto& source : tree) {
    for (const auto& word : cpprun::tidy::words_to_avoid_in(source)) {
      fmt::print("{}\n", cpprun::tidy::to_text(word));
    }
  }
}

}  // namespace

TEST_CASE("every file keeps the house rules") {
  const char* const given = std::getenv("CPPRUN_SOURCE_DIRECTORY");
  const std::string root = given == nullptr ? "." : given;
  if (std::getenv("CPPRUN_REWRITE_SIZES") != nullptr) cpprun::tidy::write_limits(root);
  const auto tree = cpprun::tidy::read_tree(root);
  // A walk that finds no file would find no error.
  REQUIRE(tree.size() > 20);
  for (const auto& violation : cpprun::tidy::check_house(tree)) {
    FAIL_CHECK(cpprun::tidy::to_text(violation));
  }
  if (std::getenv("CPPRUN_SHOW_WORDS") != nullptr) show_words(tree);
  fmt::print("{}", cpprun::tidy::to_text(cpprun::tidy::figures_of(tree)));
  fmt::print("{}", cpprun::tidy::to_text(cpprun::tidy::prose_figures_of(tree)));
}
