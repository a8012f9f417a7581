// SPDX-License-Identifier: BSD-3-Clause
// Replays every conversation of this directory against the real code. CPPRUN_REWRITE_TRANSCRIPTS=1
// writes today's output into the files: then a person reviews the difference.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tests/transcripts/transcript.h"

namespace transcripts_test {

using namespace cpprun::transcripts;

namespace {

std::string contents_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::set<std::filesystem::path> conversations() {
  const char* const source = std::getenv("CPPRUN_SOURCE_DIRECTORY");
  REQUIRE_MESSAGE(source != nullptr,
                  "CPPRUN_SOURCE_DIRECTORY names the source tree; ctest sets it");
  std::set<std::filesystem::path> found;
  const auto directory = std::filesystem::path(source) / "tests/transcripts/conversations";
  for (const auto& each : std::filesystem::directory_iterator(directory)) found.insert(each.path());
  return found;
}

}  // namespace

TEST_CASE("every conversation replays as written") {
  const auto paths = conversations();
  CHECK(paths.size() >= 5);
  for (const auto& path : paths) {
    CAPTURE(path);
    const std::string written = contents_of(path);
    const std::string got = replay(written);
    if (std::getenv("CPPRUN_REWRITE_TRANSCRIPTS") != nullptr) {
      std::ofstream(path) << got;
      continue;
    }
    const auto difference = first_difference(written, got);
    CHECK_MESSAGE(!difference, path.filename().string(), ", ", difference.value_or(""));
  }
}

TEST_CASE("no machine breaks an invariant in a conversation") {
  for (const auto& path : conversations()) {
    CHECK(replay(contents_of(path)).find("BROKEN") == std::string::npos);
  }
}

TEST_CASE("the first line that differs is reported, with the expected text") {
  const std::string supervisor = "supervisor workers=1\nstart\n  spawn 0 as rank 0\n";
  CHECK(replay(supervisor) == supervisor);
  const auto difference =
      first_difference("supervisor workers=1\nstart\n  spawn 1 as rank 1\n", replay(supervisor));
  CHECK(difference == "line 3:\n  expected:   spawn 1 as rank 1\n  got:        spawn 0 as rank 0");
  CHECK(first_difference("a\n", "a\nb\n") == "line 2:\n  expected: (nothing more)\n  got:      b");
  CHECK_FALSE(first_difference(supervisor, supervisor));
}

TEST_CASE("an unknown line is rejected, and so is a conversation with an unknown machine") {
  CHECK_THROWS_AS(replay("supervisor\nsing\n"), std::invalid_argument);
  CHECK_THROWS_AS(replay("unknown\n"), std::invalid_argument);
}

}  // namespace transcripts_test
