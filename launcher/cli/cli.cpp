// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/cli/flags.h"
#include "launcher/cli/settings.h"

namespace cpprun {

namespace {

// What stands above the flag with which a part of the help begins.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> headings = {{
    {"nnodes", "Rendezvous"},
    {"nproc-per-node", "Workers"},
    {"max-restarts", "Failures and restarts"},
    {"log-dir", "Logs"},
    {"monitor-interval", "Compatibility with torchrun"},
    {"help", "General"},
}};

std::string help_text() {
  std::string text =
      "Usage: cpprun [flags] script [arguments of the script]\n\n"
      "Launches and supervises the workers of a distributed training job. Accepts torchrun's "
      "flags,\n"
      "with dashes or underscores, and unique abbreviations; PET_<NAME> sets a default.\n";
  for (const auto& flag : flags()) {
    for (const auto& [first, heading] : headings) {
      if (flag.name == first) text += fmt::format("\n{}:\n", heading);
    }
    auto spelled = fmt::format("--{}", flag.name);
    if (flag.takes_value()) spelled += fmt::format("={}", flag.value);
    if (flag.letter != 0) spelled = fmt::format("-{}, {}", flag.letter, spelled);
    text += fmt::format("  {:<36}  {}\n", spelled, flag.help);
  }
  text +=
      "\nA .py file or a module (-m) is run by the Python on PATH (or by PYTHON_EXEC); any other\n"
      "executable is run directly. Examples:\n\n"
      "  one machine, one worker per GPU\n"
      "    cpprun --standalone --nproc-per-node=gpu train.py --epochs=3\n\n"
      "  two machines: the same command on both, but for the rank\n"
      "    cpprun --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 ./train\n\n"
      "  two to four machines that meet at the one called head, and continue when one is lost\n"
      "    cpprun --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=head --rdzv-id=tonight \\\n"
      "      --max-restarts=3 train.py\n\n"
      "  every worker's output in files, and on the console with its rank\n"
      "    cpprun --nproc-per-node=2 --log-dir=logs --tee=3 train.py\n";
  return text;
}

// The environment first, so that the command line wins.
void settle_environment(const Environment& environment, Settings& settings,
                        std::vector<std::string>& mistakes) {
  for (const auto& flag : flags()) {
    if (!flag.environment) continue;
    const auto name = environment_name(flag);
    const auto* value = find_variable(environment, name);
    if (value == nullptr || value->empty()) continue;
    if (flag.takes_value()) {
      settings.settle(flag.name, {*value, name});
    } else if (*value == "1") {
      settings.settle(flag.name, {"", name});
    } else if (*value != "0") {
      mistakes.push_back(fmt::format("{}={} is neither 1 (on) nor 0 (off)", name, *value));
    }
  }
}

}  // namespace

CliOutcome read_command_line(const CommandLine& line) {
  auto words = read_words(line.words);
  const auto asks_for = [&](std::string_view name) {
    return std::any_of(words.typed.begin(), words.typed.end(),
                       [&](const TypedFlag& typed) { return typed.flag->name == name; });
  };
  if (asks_for("help")) return CliText{help_text()};
  if (asks_for("version")) return CliText{fmt::format("cpprun {}\n", line.version)};

  CliMistakes mistakes;
  Settings settings;
  settle_environment(line.environment, settings, mistakes.mistakes);
  mistakes.mistakes.insert(mistakes.mistakes.end(), words.mistakes.begin(), words.mistakes.end());
  for (const auto& typed : words.typed) {
    settings.settle(typed.flag->name, {typed.value, fmt::format("--{}", typed.flag->name)});
  }
  auto config = config_of(settings, line, mistakes.mistakes);
  if (!words.script || words.script->empty()) {
    mistakes.mistakes.emplace_back("there is no script to run; give one after the flags");
  }
  if (!mistakes.mistakes.empty()) return mistakes;
  config.program.script = *words.script;
  config.program.arguments = std::move(words.arguments);
  return config;
}

std::string to_text(const CliMistakes& mistakes) {
  std::string text;
  for (const auto& mistake : mistakes.mistakes) text += fmt::format("cpprun: {}\n", mistake);
  return text + "cpprun: nothing was started; cpprun --help shows the flags\n";
}

}  // namespace cpprun
