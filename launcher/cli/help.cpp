// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>

#include "proto/text.h"

namespace cpprun {

namespace {

struct Example {
  std::string_view purpose;
  std::string_view command;
};

constexpr std::array<Example, 4> examples = {{
    {"one machine, one worker per GPU",
     "cpprun --standalone --nproc-per-node=gpu train.py --epochs=3"},
    {"two machines: the same command on both, but for the rank",
     "cpprun --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 --master-port=29500 ./train"},
    {"two to four machines that meet at the one called head, and continue when one is lost",
     "cpprun --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=head --rdzv-id=tonight \\\n"
     "      --max-restarts=3 train.py"},
    {"every worker's output in files, and on the console with its rank",
     "cpprun --nproc-per-node=2 --log-dir=logs --tee=3 train.py"},
}};

std::string spelled(const FlagFacts& flag) {
  auto text = fmt::format("--{}", flag.name);
  if (flag.takes_value()) text += fmt::format("={}", flag.value);
  return flag.letter == 0 ? text : fmt::format("-{}, {}", flag.letter, text);
}

}  // namespace

std::string help_text(const std::vector<FlagFacts>& flags) {
  std::string text =
      "Usage: cpprun [flags] script [arguments of the script]\n\n"
      "Launches and supervises the workers of a distributed training job. Accepts torchrun's "
      "flags,\n"
      "with dashes or underscores, and unique abbreviations; PET_<NAME> sets a default.\n";
  std::string_view group;
  for (const auto& flag : flags) {
    if (flag.group != group) text += fmt::format("\n{}:\n", flag.group);
    group = flag.group;
    text += fmt::format("  {:<36}  {}\n", spelled(flag), flag.help);
  }
  text +=
      "\nA .py file or a module (-m) is run by the Python on PATH (or by PYTHON_EXEC); any other\n"
      "executable is run directly. Examples:\n";
  for (const auto& example : examples) {
    text += fmt::format("\n  {}\n    {}\n", example.purpose, example.command);
  }
  return text;
}

std::string manual_page(const std::vector<FlagFacts>& flags, const std::string& version) {
  std::string text = fmt::format(
      ".TH CPPRUN 1 \"\" \"cpprun {}\" \"User Commands\"\n"
      ".nh\n.ad l\n.SH NAME\ncpprun \\- launch and supervise the workers of a distributed training "
      "job\n"
      ".SH SYNOPSIS\n.B cpprun\n[\\fIflags\\fR] \\fIscript\\fR [\\fIarguments of the script\\fR]\n"
      ".SH DESCRIPTION\n"
      "Starts the workers of a job on this machine, joins those of the other machines, watches "
      "them, and ends all of them when one fails. It accepts the flags of torchrun, with dashes or "
      "underscores, and unique abbreviations.\n.PP\n"
      "A .py file or a module (\\fB\\-m\\fR) is run by the Python on PATH; any other executable is "
      "run directly. What follows the script is passed on to it.\n.SH OPTIONS\n",
      roff_text(version));
  std::string_view group;
  for (const auto& flag : flags) {
    if (flag.group != group) text += fmt::format(".SS \"{}\"\n", flag.group);
    group = flag.group;
    text += fmt::format(".TP\n.B {}\n{}.", roff_text(spelled(flag)), roff_text(flag.help));
    if (!flag.variables.empty()) {
      text += fmt::format(" Environment: {}.", fmt::join(flag.variables, ", "));
    }
    text += '\n';
  }
  text +=
      ".SH FILES\nThe file of \\fB\\-\\-config\\fR has a line for each flag: its name without the "
      "dashes, =, and its value; text stands in quotes, a flag without a value is true or false, a "
      "list stands in [ ]. What begins with # is a comment. The command line wins over the "
      "environment, and that over the file.\n"
      ".SH ENVIRONMENT\n.TP\n.B PET_<NAME>\nThe default of the flag of that name, in capitals and "
      "with underscores. Flags without a value take 1 or 0.\n"
      ".TP\n.B PYTHON_EXEC\nThe Python that runs scripts.\n"
      ".SH \"EXIT STATUS\"\n0 when every worker ended well; the exit code of the worker that "
      "failed first, or 128 and the number of its signal; 2 for a command line that cannot be "
      "obeyed; 1 for anything else.\n"
      ".SH EXAMPLES\n";
  for (const auto& example : examples) {
    text += fmt::format(".PP\n{}:\n.PP\n.nf\n    {}\n.fi\n", example.purpose,
                        roff_text(example.command));
  }
  return text + ".SH \"SEE ALSO\"\n.BR torchrun (1)\n";
}

}  // namespace cpprun
