// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/failure_story.h"

#include <fmt/format.h>

#include "launcher/control/durations.h"
#include "launcher/control/overview.h"
#include "launcher/failure/causes.h"
#include "launcher/failure/diagnosis.h"
#include "launcher/output/printable.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::string_view indent = "    ";
// What the advice calls the program, which the coordinator does not know.
constexpr const char* program = "the program";

// Every line of somebody else's words stands behind a mark, and so is taken for nothing of ours.
std::string quoted_lines(const std::string& words) {
  const std::string plain = printable(words);
  std::string text;
  for (const auto line : split(plain, '\n')) {
    if (!trimmed(line).empty()) text += fmt::format("{}| {}\n", indent, line);
  }
  return text;
}

std::string cause_text(const std::string& id) {
  const Cause* cause = find_cause(id);
  if (cause == nullptr) return {};
  return fmt::format("{}why: {}\n{}try: {}\n", indent, cause->sentence, indent,
                     cause_advice(*cause, program));
}

std::string about(const FailureView& failure, std::size_t consequences, const Canvas& canvas) {
  auto text = tinted(failure_text(failure), Tint::bad, canvas.has_colour) +
              fmt::format(" (node {}, pid {})\n", failure.node, failure.pid);
  text += cause_text(failure.cause) + quoted_lines(failure.message);
  if (consequences > 0) {
    text += fmt::format("{}{} other workers ended because of it\n", indent, consequences);
  }
  return text;
}

}  // namespace

std::string failure_story(const JobView& job, const Canvas& canvas) {
  std::string text = job_sentence(job) + "\n";
  std::size_t failed = 0;
  for (const auto& round : job.rounds) {
    const auto age = duration_text(job.now - round.ended.value_or(job.now));
    const auto head = fmt::format("\nround {}, {} ago: ", round.round, age);
    if (round.failure) {
      text += head + about(*round.failure, round.consequence_count, canvas);
      ++failed;
    } else if (round.ended && !round.reason.empty()) {
      text += head + plain_line(round.reason) + "\n";
    }
  }
  if (job.rounds_left_out > 0) {
    text += fmt::format("\n({} rounds between the first and the last are kept no more)\n",
                        job.rounds_left_out);
  }
  if (failed == 0 && !job.root) text += "\nno worker of this job has failed\n";
  // One that failed before any round was told is known by the end alone.
  if (failed == 0 && job.root) text += "\nat its end: " + about(*job.root, 0, canvas);
  return text;
}

}  // namespace cpprun
