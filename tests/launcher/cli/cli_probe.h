// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Command lines as tests type them, on a machine with 12 processors and no device.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/cli/cli.h"

namespace cpprun::probe {

using Words = std::vector<std::string>;

inline CliOutcome read(Words words, Environment environment = {}) {
  return read_command_line({.words = std::move(words),
                            .environment = std::move(environment),
                            .cpu_count = 12,
                            .device_count = 0,
                            .random_id = "r4nd0m",
                            .version = "1.2.3 (commit abc)"});
}

inline Config good(Words words, Environment environment = {}) {
  auto outcome = read(std::move(words), std::move(environment));
  if (const auto* bad = std::get_if<CliMistakes>(&outcome)) FAIL(to_text(*bad));
  return std::get<Config>(outcome);
}

inline Words mistakes(Words words, Environment environment = {}) {
  auto outcome = read(std::move(words), std::move(environment));
  REQUIRE(std::holds_alternative<CliMistakes>(outcome));
  return std::get<CliMistakes>(outcome).mistakes;
}

}  // namespace cpprun::probe
