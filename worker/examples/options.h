// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line of an example program: long options over getopt_long, in both spellings
// (--batch-size, --batch_size), with defaults, bounds and a help text. All mistakes are reported
// together.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun::examples {

enum class CommandLine { run, help };

class Options {
 public:
  // `about` is one sentence for --help.
  explicit Options(std::string about) : about_(std::move(about)) {}

  // Each binds an option to a variable, whose present value is the default.
  void number(const std::string& name, int& target, int least, int most, const std::string& help);
  void real(const std::string& name, double& target, double least, const std::string& help);
  void text(const std::string& name, std::string& target, const std::string& help);
  void choice(const std::string& name, std::string& target, std::vector<std::string> choices,
              const std::string& help);
  void flag(const std::string& name, bool& target, const std::string& help);

  // An argument without a name; all of them have to be given, in this order.
  void argument(const std::string& name, std::string& target, const std::string& help) {
    arguments_.push_back({name, &target, help});
  }
  // A last look at the values together: returns what is wrong with them, or nothing.
  void require(std::function<std::string()> mistake) { required_.push_back(std::move(mistake)); }

  // For main(): an exit code when the program shall not go on, because its help was asked for (0)
  // or its command line is wrong (2). What there is to say has been said.
  std::optional<int> settle(int argc, const char* const* argv) const;
  Result<CommandLine> parse(int argc, const char* const* argv) const;
  std::string help() const;

 private:
  struct Option {
    std::string name;
    std::string shown_default;  // empty for a flag
    std::string help;
    bool takes_value = true;
    // Returns what is wrong with the value, or nothing.
    std::function<std::string(const std::string& value)> assign;
  };

  struct Argument {
    std::string name;
    std::string* target = nullptr;
    std::string help;
  };

  void add(Option option) { options_.push_back(std::move(option)); }

  std::string about_;
  std::vector<Option> options_;
  std::vector<Argument> arguments_;
  std::vector<std::function<std::string()>> required_;
};

}  // namespace cpprun::examples
