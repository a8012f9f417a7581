// SPDX-License-Identifier: BSD-3-Clause
#include "worker/examples/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

namespace cpprun::examples {

CommandLine::CommandLine(const std::string& description)
    : app_(std::make_unique<CLI::App>(description)) {}

CommandLine::~CommandLine() = default;

void CommandLine::add(const std::string& names, int& value, const std::string& help,
                      std::optional<Range<int>> range) {
  auto* const option = app_->add_option(names, value, help);
  if (range) option->check(CLI::Range(range->min, range->max));
}

void CommandLine::add(const std::string& names, double& value, const std::string& help,
                      std::optional<Range<double>> range) {
  auto* const option = app_->add_option(names, value, help);
  if (range) option->check(CLI::Range(range->min, range->max));
}

void CommandLine::add(const std::string& names, std::string& value, const std::string& help,
                      const std::vector<std::string>& choices) {
  auto* const option = app_->add_option(names, value, help);
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}

void CommandLine::add_flag(const std::string& names, bool& value, const std::string& help) {
  app_->add_flag(names, value, help);
}

void CommandLine::add_word(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help)->required();
}

void CommandLine::add_backend(std::string& backend) {
  add("--backend", backend, "gloo, nccl, mpi or cpu:gloo,cuda:nccl; default: by device");
}

void CommandLine::check(std::function<std::string()> problem) {
  app_->callback([problem = std::move(problem)] {
    if (const auto reason = problem(); !reason.empty()) throw CLI::ValidationError(reason);
  });
}

std::optional<int> CommandLine::parse_or_exit(int argc, const char* const* argv) {
  app_->name(std::filesystem::path(argv[0]).filename());
  int local_rank = 0;
  if (app_->get_option_no_throw("--local-rank") == nullptr) {
    add("--local-rank", local_rank, "no effect; accepted for cpprun --pass-local-rank",
        Range<int>{0, 1 << 20});
  }
  for (auto* option : app_->get_options()) {
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
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& wrong) {
    return app_->exit(wrong) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace cpprun::examples
