// SPDX-License-Identifier: BSD-3-Clause
#include "worker/examples/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <getopt.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace cpprun::examples {
namespace {

// getopt writes into its arguments' order, and `_` and `-` are one letter to us.
std::string with_dashes(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  const std::size_t name_end = std::min(argument.find('='), argument.size());
  std::string same = argument;
  std::replace(same.begin(), same.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
  return same;
}

}  // namespace

void Options::number(const std::string& name, int& target, int least, int most,
                     const std::string& help) {
  add({.name = name,
       .shown_default = std::to_string(target),
       .help = help,
       .assign = [&target, least, most](const std::string& value) -> std::string {
         int parsed = 0;
         const char* const end = value.data() + value.size();
         const auto [stop, error] = std::from_chars(value.data(), end, parsed);
         if (error == std::errc() && stop == end && least <= parsed && parsed <= most) {
           target = parsed;
           return {};
         }
         return fmt::format("must be a whole number from {} to {}", least, most);
       }});
}

void Options::real(const std::string& name, double& target, double least, const std::string& help) {
  add({.name = name,
       .shown_default = fmt::format("{}", target),
       .help = help,
       .assign = [&target, least](const std::string& value) -> std::string {
         double parsed = 0;
         const char* const end = value.data() + value.size();
         const auto [stop, error] = std::from_chars(value.data(), end, parsed);
         if (error == std::errc() && stop == end && parsed >= least) {
           target = parsed;
           return {};
         }
         return fmt::format("must be a number, at least {}", least);
       }});
}

void Options::text(const std::string& name, std::string& target, const std::string& help) {
  add({.name = name,
       .shown_default = target,
       .help = help,
       .assign = [&target](const std::string& value) -> std::string {
         target = value;
         return {};
       }});
}

void Options::choice(const std::string& name, std::string& target, std::vector<std::string> choices,
                     const std::string& help) {
  const std::string listed = fmt::format("{}", fmt::join(choices, ", "));
  add({.name = name,
       .shown_default = target,
       .help = help + ": " + listed,
       .assign = [&target, choices = std::move(choices),
                  listed](const std::string& value) -> std::string {
         if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
           return "must be one of " + listed;
         }
         target = value;
         return {};
       }});
}

void Options::flag(const std::string& name, bool& target, const std::string& help) {
  add({.name = name,
       .shown_default = {},
       .help = help,
       .takes_value = false,
       .assign = [&target](const std::string&) -> std::string {
         target = true;
         return {};
       }});
}

Result<CommandLine> Options::parse(int argc, const char* const* argv) const {
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) words.push_back(with_dashes(argv[i]));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  std::vector<option> known;
  for (const Option& each : options_) {
    known.push_back(
        {each.name.c_str(), each.takes_value ? required_argument : no_argument, nullptr, 0});
  }
  // A launcher may hand it to every program (--pass-local-rank); the environment says the same.
  constexpr int local_rank_letter = 'l';
  const bool own = std::any_of(options_.begin(), options_.end(),
                               [](const Option& each) { return each.name == "local-rank"; });
  if (!own) known.push_back({"local-rank", required_argument, nullptr, local_rank_letter});
  known.push_back({"help", no_argument, nullptr, 'h'});
  known.push_back({nullptr, 0, nullptr, 0});

  std::vector<std::string> mistakes;
  // getopt_long keeps its place in a global: 0 makes it start over, as tests do.
  optind = 0;
  opterr = 0;
  for (int index = 0, got = 0;
       (got = ::getopt_long(argc, pointers.data(), ":h", known.data(), &index)) != -1;) {
    if (got == 'h') return CommandLine::help;
    const std::string word = pointers[static_cast<std::size_t>(optind - 1)];
    if (got == local_rank_letter) {
      int rank = 0;
      const std::string value = optarg;
      const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), rank);
      const bool whole = error == std::errc() && stop == value.data() + value.size() && rank >= 0;
      if (!whole) mistakes.push_back(fmt::format("--local-rank={} must be a whole number", value));
    } else if (got == ':') {
      mistakes.push_back(fmt::format("{} needs a value", word));
    } else if (got != 0) {
      mistakes.push_back(fmt::format("{} is no option of this program", word));
    } else {
      const Option& chosen = options_[static_cast<std::size_t>(index)];
      const std::string value = optarg == nullptr ? "" : optarg;
      const std::string mistake = chosen.assign(value);
      if (!mistake.empty()) {
        mistakes.push_back(fmt::format("--{}={} {}", chosen.name, value, mistake));
      }
    }
  }
  auto argument = arguments_.begin();
  for (int i = optind; i < argc; ++i) {
    const std::string word = pointers[static_cast<std::size_t>(i)];
    if (argument == arguments_.end()) {
      mistakes.push_back(fmt::format("\"{}\" is no option", word));
    } else {
      *argument++->target = word;
    }
  }
  for (; argument != arguments_.end(); ++argument) {
    mistakes.push_back(fmt::format("{} is missing: {}", argument->name, argument->help));
  }
  for (const auto& mistake : required_) {
    if (std::string found = mistake(); !found.empty()) mistakes.push_back(std::move(found));
  }
  if (mistakes.empty()) return CommandLine::run;
  return failure(fmt::format("{} (--help lists the options)", fmt::join(mistakes, "; ")));
}

std::optional<int> Options::settle(int argc, const char* const* argv) const {
  const auto command = parse(argc, argv);
  if (!command) {
    const auto name = std::filesystem::path(argv[0]).filename().string();
    fmt::print(stderr, "{}: {}\n", name, command.error().reason);
    return 2;
  }
  if (*command == CommandLine::run) return std::nullopt;
  fmt::print("{}", help());
  return 0;
}

std::string Options::help() const {
  std::string text = about_ + "\n";
  if (!arguments_.empty()) text += "\nArguments:\n";
  for (const Argument& each : arguments_) {
    text += fmt::format("  {:<24} {}\n", each.name, each.help);
  }
  text += "\nOptions:\n";
  for (const Option& each : options_) {
    const std::string usage = each.takes_value ? each.name + " VALUE" : each.name;
    text += fmt::format("  --{:<22} {}", usage, each.help);
    if (!each.shown_default.empty()) text += fmt::format(" [{}]", each.shown_default);
    text += '\n';
  }
  return text + fmt::format("  --{:<22} {}\n", "help", "say this");
}

}  // namespace cpprun::examples
