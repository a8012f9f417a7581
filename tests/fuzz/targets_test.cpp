// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/targets.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace targets_test {

using namespace cpprun;

namespace {

constexpr int damaged_inputs = 3'000;

std::filesystem::path corpus() {
  const char* directory = std::getenv("CPPRUN_FUZZ_CORPUS");
  REQUIRE(directory != nullptr);
  return directory;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Sorted, so that a seed means the same input on every machine.
std::vector<std::string> inputs_of(const fuzz::Target& target) {
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(corpus() / target.name)) {
    paths.insert(entry.path());
  }
  std::vector<std::string> inputs;
  for (const auto& path : paths) inputs.push_back(content_of(path));
  return inputs;
}

}  // namespace

TEST_CASE("every target has a corpus and keeps its promises for all of it") {
  for (const fuzz::Target& target : fuzz::targets()) {
    CAPTURE(target.name);
    const auto inputs = inputs_of(target);
    CHECK(inputs.size() >= 5);
    for (const std::string& input : inputs) {
      CAPTURE(input);
      CHECK_NOTHROW(target.run(input));
    }
    CHECK_NOTHROW(target.run(""));
  }
}

TEST_CASE("every target keeps its promises for a damaged corpus") {
  for (const fuzz::Target& target : fuzz::targets()) {
    CAPTURE(target.name);
    const auto inputs = inputs_of(target);
    REQUIRE_FALSE(inputs.empty());
    std::mt19937 random(20'261'122);
    for (int count = 0; count < damaged_inputs; ++count) {
      const std::string input = fuzz::mutate(inputs, random);
      CAPTURE(input);
      REQUIRE_NOTHROW(target.run(input));
    }
  }
}

TEST_CASE("a corpus directory without a target is an error") {
  for (const auto& entry : std::filesystem::directory_iterator(corpus())) {
    CAPTURE(entry.path().string());
    CHECK(fuzz::find_target(entry.path().filename().string()) != nullptr);
  }
}

TEST_CASE("a broken promise throws") {
  CHECK_THROWS_AS(fuzz::promise(false, "kept"), fuzz::BrokenPromise);
  CHECK_NOTHROW(fuzz::promise(true, "kept"));
}

}  // namespace targets_test
