// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Command line handling of the examples in addition to CLI11: both spellings (--batch-size,
// --batch_size), the --local-rank of some launchers, and exit code 2 for an error.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cpprun::examples {

// For main(): the exit code if the program must not continue: 0 after help, 2 after a command line
// error. The text has already been printed.
inline std::optional<int> parse_or_exit(CLI::App& app, int argc, const char* const* argv) {
  app.name(std::filesystem::path(argv[0]).filename());
  int local_rank = 0;
  if (app.get_option_no_throw("--local-rank") == nullptr) {
    app.add_option("--local-rank", local_rank, "no effect; accepted for cpprun --pass-local-rank")
        ->check(CLI::Range(0, 1 << 20));
  }
  for (auto* option : app.get_options()) {
    option->capture_default_str();                                  // for the help
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // the last one wins
  }
  // CLI11 expects the arguments in reverse order.
  std::vector<std::string> words(argv + 1, argv + argc);
  for (auto& word : words) {
    const auto end = word.starts_with("--") ? std::min(word.find('='), word.size()) : 0;
    std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  }
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

// The backend of the tensors; init_process_group() rejects invalid values.
inline void add_backend(CLI::App& app, std::string& backend) {
  app.add_option("--backend", backend, "gloo, nccl, mpi or cpu:gloo,cuda:nccl; default: by device");
}

}  // namespace cpprun::examples
