// SPDX-License-Identifier: BSD-3-Clause
// The table as a table: every rule names an existing cause, every cause can result, and no rule is
// hidden by one above it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "launcher/failure/causes.h"
#include "proto/link/message.h"
#include "proto/restart_rules.h"
#include "rendezvous/job/round_outcome.h"

namespace cause_table_test {

using namespace cpprun;

namespace {

// The causes that judge_cause returns itself, when no line of the table does.
const std::set<std::string_view> by_code = {
    "not_started",      "log_folder_unwritable", "stuck_in_kernel", "signalled",
    "python_exception", "cpp_exception",         "aborted",         "silent_exit",
    "recorded_error",   "stray_interface"};

std::set<std::string_view> in_table() {
  std::set<std::string_view> ids;
  for (const EndRule& each : end_rules()) ids.insert(each.cause);
  for (const WordRule& each : word_rules()) ids.insert(each.cause);
  return ids;
}

}  // namespace

TEST_CASE("every rule names a cause of the catalogue") {
  for (const auto id : in_table()) {
    CAPTURE(id);
    CHECK(find_cause(id) != nullptr);
  }
}

// Some come from the coordinator, for a silent node, from the heartbeat monitor, and from a
// verdict.
TEST_CASE("every cause of the catalogue can result") {
  const auto table = in_table();
  for (const Cause& each : causes()) {
    CAPTURE(each.id);
    const bool is_said = each.id == link::node_lost || each.id == left_early || each.id == "hung" ||
                         each.id == "no_progress";
    CHECK((table.contains(each.id) || by_code.contains(each.id) || is_said));
  }
}

TEST_CASE("a rule about words has words, and its first ones lead to its cause") {
  for (const WordRule& each : word_rules()) {
    CAPTURE(each.cause);
    REQUIRE_FALSE(each.said.front().empty());
    const auto line = std::string(each.said.front()) + " " + std::string(each.also.front());
    CHECK(cause_of_words(line) == each.cause);
  }
}

TEST_CASE("docs/failures.md lists every cause with its description, its group and its hint") {
  const char* const directory = std::getenv("CPPRUN_SOURCE_DIRECTORY");
  REQUIRE(directory != nullptr);
  std::ifstream file(std::string(directory) + "/docs/failures.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const Cause& each : causes()) {
    std::string row = "\n| `" + std::string(each.id) + "` | " + std::string(each.sentence) + " | ";
    for (const CauseGroup& group : cause_groups()) {
      const bool is_in = std::ranges::find(group.causes, each.id) != group.causes.end();
      if (is_in) row += "`" + std::string(group.name) + "` ";
    }
    CAPTURE(row);
    CHECK(page.find(row + "| " + std::string(each.advice) + " |\n") != std::string::npos);
  }
}

TEST_CASE("a rule about exits has a condition") {
  for (const EndRule& each : end_rules()) {
    CAPTURE(each.cause);
    CHECK((each.error_number != 0 || each.signal != 0 || each.code != 0 ||
           each.exec_fault != ExecFault::none));
  }
}

}  // namespace cause_table_test
