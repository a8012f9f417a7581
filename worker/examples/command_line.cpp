// SPDX-License-Identifier: BSD-3-Clause
#include "worker/examples/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string_view>
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

void CommandLine::add_meeting(std::string& init_method) {
  init_method_ = &init_method;
  add("--init-method", init_method, "env://, tcp://host:port or file:///path");
  add("--rank", rank_, "rank of this process, without a launcher; -1: from the environment",
      Range<int>{-1, 1 << 20});
  add("--world-size", world_size_, "number of ranks, with --rank; -1: from the environment",
      Range<int>{-1, 1 << 20});
  add("--gpu-devices", gpu_devices_, "GPUs that this process may use, such as 0 or 0,1");
}

std::string CommandLine::export_meeting() {
  if (!gpu_devices_.empty()) ::setenv("CUDA_VISIBLE_DEVICES", gpu_devices_.c_str(), 1);
  if (rank_ < 0 && world_size_ < 0) return "";
  if (std::getenv("TORCHELASTIC_RUN_ID") != nullptr) {
    return "--rank and --world-size are set by the launcher: omit them";
  }
  if (rank_ < 0 || world_size_ < 1 || rank_ >= world_size_) {
    return "--rank needs --world-size, and must be below it";
  }
  // This process chooses its GPUs itself, so it is alone on its host as far as they are concerned.
  for (const auto& [name, value] : {std::pair{"RANK", rank_}, std::pair{"WORLD_SIZE", world_size_},
                                    std::pair{"LOCAL_RANK", 0}, std::pair{"LOCAL_WORLD_SIZE", 1}}) {
    ::setenv(name, std::to_string(value).c_str(), 1);
  }
  if (*init_method_ == "env://") return "";
  // A context needs an address, also where the ranks meet elsewhere.
  std::string_view address = *init_method_;
  const bool tcp = address.starts_with("tcp://");
  address = tcp ? address.substr(6, address.find('?') - 6) : "127.0.0.1:29500";
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return "";  // init_process_group() says what is missing
  ::setenv("MASTER_ADDR", std::string(address.substr(0, colon)).c_str(), 0);
  ::setenv("MASTER_PORT", std::string(address.substr(colon + 1)).c_str(), 0);
  return "";
}

std::vector<int> worker_counts(const std::string& text, int nodes) {
  if (text.ends_with(',')) return {};
  std::vector<int> counts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (error != std::errc() || end != part.data() + part.size() || count < 1) return {};
    counts.push_back(count);
  }
  if (counts.size() == 1) counts.resize(static_cast<std::size_t>(nodes), counts.front());
  if (counts.size() != static_cast<std::size_t>(nodes)) return {};
  return counts;
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
  if (const std::string wrong = init_method_ != nullptr ? export_meeting() : ""; !wrong.empty()) {
    std::cerr << app_->get_name() << ": " << wrong << '\n';
    return 2;
  }
  return std::nullopt;
}

}  // namespace cpprun::examples
