// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "rendezvous/command_pages.h"

namespace cpprun {

namespace {

constexpr std::array<ExampleFacts, 4> examples = {{
    {"one machine, one worker per GPU",
     "cpprun --standalone --nproc-per-node=gpu train.py --epochs=3"},
    {"two machines: the same command on both, except for the rank",
     "cpprun --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 ./train"},
    {"two to four machines with the rendezvous on host head; the job survives a lost machine",
     "cpprun --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=head --rdzv-id=tonight \\\n"
     "      --max-restarts=3 train.py"},
    {"the output of every worker in files, and on the console with its rank",
     "cpprun --nproc-per-node=2 --log-dir=logs --tee=3 train.py"},
}};

constexpr std::string_view manual_about =
    "Starts the workers of a job on this machine, connects them with those on other machines, "
    "monitors them, and stops all of them when one fails. Accepts the flags of torchrun, with "
    "dashes or underscores, and unique abbreviations.\n.PP\n"
    "A .py file or a module (\\fB\\-m\\fR) is run by the Python on PATH; any other executable is "
    "run directly. Arguments after the script are passed to it.";

constexpr std::string_view manual_end =
    ".SH FILES\nA file for \\fB\\-\\-config\\fR has one line per flag: its name without dashes, "
    "=, and its value. Strings may be quoted, switches are true or false, and lists are in [ ]. "
    "Comments begin with #. The command line overrides the environment, and the environment "
    "overrides the file.\n"
    ".SH ENVIRONMENT\n.TP\n.B PET_<NAME>\nDefault of the flag with that name, in capitals and "
    "with underscores. Switches take 1 or 0.\n"
    ".TP\n.B PYTHON_EXEC\nThe Python interpreter that runs scripts.\n"
    ".SH \"EXIT STATUS\"\n0 if all workers succeeded; otherwise the exit code of the worker that "
    "failed first, or 128 plus the number of its signal; 2 for an invalid command line; 1 for "
    "other errors.\n";

// The flags of the short help: those that most people use.
constexpr std::array<std::string_view, 21> common_flags = {"nnodes",       "nproc-per-node",
                                                           "node-rank",    "standalone",
                                                           "master-addr",  "master-port",
                                                           "rdzv-backend", "rdzv-endpoint",
                                                           "rdzv-id",      "hosts",
                                                           "module",       "no-python",
                                                           "max-restarts", "shutdown-timeout",
                                                           "report",       "log-dir",
                                                           "tee",          "config",
                                                           "dry-run",      "help",
                                                           "version"};

constexpr std::size_t line_max = 125;  // each flag has one line

// "failures" for the group "Failures and restarts".
std::string topic_of(const FlagFacts& flag) {
  std::string topic(flag.group.substr(0, flag.group.find(' ')));
  topic.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(topic.front())));
  return topic;
}

std::string flag_page(const FlagFacts& flag) {
  std::string text = flag_line(flag, line_max);
  if (!flag.choices.empty()) {
    text += fmt::format("\nValues: {}\n", fmt::join(flag.choices, ", "));
  }
  if (!flag.variables.empty()) {
    text += fmt::format("Environment: {}\n", fmt::join(flag.variables, ", "));
  }
  return text;
}

}  // namespace

ProgramFacts cpprun_facts() {
  return {.name = "cpprun",
          .summary = "launch and supervise the workers of a distributed training job",
          .synopsis = "[flags] script [arguments of the script]",
          .about =
              "Launches and supervises the workers of a distributed training job. Accepts "
              "torchrun's flags,\n"
              "with dashes or underscores, and unique abbreviations; PET_<NAME> sets a default.",
          .manual_about = manual_about,
          .manual_end = manual_end,
          .examples = examples,
          .see_also = ".BR torchrun (1)",
          .launches_script = true};
}

std::string help_text(const ProgramFacts& program, std::string_view topic) {
  const auto& flags = program.flags;
  const auto name = flag_name(topic.substr(std::min(topic.find_first_not_of('-'), topic.size())));
  const auto about = [&](const FlagFacts& flag) { return topic_of(flag) == name; };
  if (std::ranges::any_of(flags, about)) return flag_lines(flags, about, line_max).substr(1);
  if (const auto flag = std::ranges::find(flags, name, &FlagFacts::name); flag != flags.end()) {
    return flag_page(*flag);
  }
  std::string text = help_start(program) +
                     flag_lines(
                         flags,
                         [&](const FlagFacts& flag) {
                           return name == "all" ||
                                  std::ranges::find(common_flags, flag.name) != common_flags.end();
                         },
                         line_max);
  if (name != "all") {
    std::vector<std::string> topics;
    for (const auto& flag : flags) {
      if (topics.empty() || topics.back() != topic_of(flag)) topics.push_back(topic_of(flag));
    }
    text += fmt::format(
        "\nMore: cpprun --help all ({} flags), --help FLAG (without dashes), or --help "
        "TOPIC:\n{}.\n",
        flags.size(), fmt::join(topics, ", "));
  }
  text +=
      "\nA .py file or a module (-m) runs under PYTHON_EXEC, or the Python next to cpprun, or the\n"
      "Python of the active environment, or python3 on PATH. Any other executable runs directly. "
      "Examples:\n";
  for (const auto& example : examples) {
    text += fmt::format("\n  {}\n    {}\n", example.purpose, example.command);
  }
  return text;
}

}  // namespace cpprun
