// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Command lines as a user types them, on a machine with 12 processors and no device.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/cli/cli.h"

namespace cpprun::probe {

using Words = std::vector<std::string>;

// The only file, and its content.
struct File {
  std::string path = "job.toml";
  std::string text;
};

// Every script can be run, except those named gone.
inline FileKind probe_file(const std::string& path) {
  return path.find("gone") == std::string::npos ? FileKind::executable : FileKind::missing;
}

inline CliOutcome read(Words words, Environment environment = {}, File file = {}) {
  const auto read_file = [&](const std::string& path) -> Result<std::string> {
    if (path != file.path) return failure("No such file or directory");
    return file.text;
  };
  return read_command_line({.words = std::move(words),
                            .environment = std::move(environment),
                            .count_cpus = [] { return 12; },
                            .count_devices = [] { return 0; },
                            .random_id = "r4nd0m",
                            .version = "1.2.3 (commit abc)",
                            .read_file = read_file,
                            .probe_file = probe_file});
}

inline Config good(Words words, Environment environment = {}, File file = {}) {
  auto outcome = read(std::move(words), std::move(environment), std::move(file));
  if (const auto* bad = std::get_if<CliDiagnostics>(&outcome)) FAIL(to_text(*bad));
  return std::get<Config>(outcome);
}

inline Words diagnostics(Words words, Environment environment = {}, File file = {}) {
  auto outcome = read(std::move(words), std::move(environment), std::move(file));
  REQUIRE(std::holds_alternative<CliDiagnostics>(outcome));
  return std::get<CliDiagnostics>(outcome).diagnostics;
}

}  // namespace cpprun::probe
