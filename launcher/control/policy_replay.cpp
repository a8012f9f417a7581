// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/policy_replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/control/text.h"
#include "proto/signal_names.h"

namespace cpprun {

namespace {

std::string failure_text(const RestartPolicy::End& end) {
  const link::Failure& root = end.root;
  const std::string host = root.host.empty() ? "" : " on " + root.host;
  if (end.lost) return fmt::format("node{} was lost", host);
  const std::string ending = root.status.signalled ? std::string(signal_name(root.status.value))
                                                   : fmt::format("exit code {}", root.status.value);
  const std::string cause = root.cause.empty() ? "" : fmt::format(" ({})", root.cause);
  return fmt::format("rank {}{}: {}{}", root.rank.value, host, ending, cause);
}

std::string verdict_text(const PolicyStep& step) {
  if (!step.verdict) return "not reached";
  const auto& verdict = *step.verdict;
  if (!verdict.restart) return "end: " + verdict.reason;
  std::string text = verdict.reason;
  if (verdict.pause > Duration{}) {
    text += fmt::format(", after {}", duration_text(in_seconds(verdict.pause)));
  }
  if (verdict.failing_host)
    text += fmt::format("; {} is excluded if enough other nodes are left", *verdict.failing_host);
  return text;
}

Tint tint_of(const PolicyStep& step) {
  if (!step.verdict) return Tint::faint;
  return step.verdict->restart ? Tint::plain : Tint::bad;
}

std::string summary(const PolicyReplay& replay) {
  const auto count = replay.steps.size();
  const std::string used = fmt::format("{} {}", replay.restarts_used,
                                       replay.restarts_used == 1 ? "restart" : "restarts");
  if (const PolicyStep* const end = replay.end()) {
    const auto place = end - replay.steps.data() + 1;
    return fmt::format("With {}, the job would have ended at failure {} of {}, after {}: {}.\n",
                       to_text(replay.rules), place, count, used, end->verdict->reason);
  }
  return fmt::format(
      "With {}, the job would have continued after {}; {} used, {} left for the whole job.\n",
      to_text(replay.rules), count == 1 ? "the failure" : fmt::format("all {} failures", count),
      used, replay.restarts_left);
}

}  // namespace

const PolicyStep* PolicyReplay::end() const {
  const auto found = std::ranges::find_if(
      steps, [](const PolicyStep& step) { return step.verdict && !step.verdict->restart; });
  return found == steps.end() ? nullptr : &*found;
}

PolicyReplay replay(const RestartRules& rules, const PolicyTrace& trace) {
  PolicyReplay played{.rules = rules, .steps = {}};
  RestartPolicy policy{rules};
  TimePoint last{};
  bool goes_on = true;
  for (const TracedFailure& failure : trace.failures) {
    PolicyStep step{.failure = failure, .verdict = {}};
    if (goes_on) step.verdict = policy.judge(failure.at, failure.end);
    goes_on = goes_on && step.verdict->restart;
    last = failure.at;
    played.steps.push_back(std::move(step));
  }
  played.restarts_used = policy.restarts_used();
  played.restarts_left = policy.restarts_left(last);
  return played;
}

std::string replay_text(const PolicyReplay& replay, const Canvas& canvas) {
  if (replay.steps.empty()) return "the trace has no failures\n";
  Table table{.columns = {{"#", true}, {"AFTER", true}, {"FIRST FAILURE", false, true}, {"RESULT"}},
              .rows = {}};
  for (std::size_t at = 0; at < replay.steps.size(); ++at) {
    const PolicyStep& step = replay.steps[at];
    const Tint tint = tint_of(step);
    // Short times in seconds, because windows are given in seconds.
    const double seconds = in_seconds(step.failure.at.time_since_epoch());
    const auto after = seconds < 600 ? fmt::format("{:.1f} s", seconds) : duration_text(seconds);
    table.rows.push_back({{std::to_string(at + 1), tint},
                          {after, tint},
                          {failure_text(step.failure.end), tint},
                          {verdict_text(step), tint}});
  }
  return table_text(table, canvas) + summary(replay);
}

}  // namespace cpprun
