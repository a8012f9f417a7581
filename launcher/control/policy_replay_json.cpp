// SPDX-License-Identifier: BSD-3-Clause
// Reads a PolicyTrace from JSON, and writes a PolicyReplay as JSON.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "launcher/control/policy_replay.h"
#include "launcher/failure/causes.h"
#include "proto/fields_json.h"
#include "proto/parse_json.h"
#include "proto/signal_names.h"
#include "proto/text.h"

namespace cpprun {

std::string replay_json(const PolicyReplay& replay) {
  using Json = nlohmann::ordered_json;
  Json steps = Json::array();
  for (const PolicyStep& step : replay.steps) {
    const RestartPolicy::End& end = step.failure.end;
    const auto* const verdict = step.verdict ? &*step.verdict : nullptr;
    const bool leaves_out = verdict != nullptr && verdict->failing_host;
    steps.push_back({{"at", in_seconds(step.failure.at.time_since_epoch())},
                     {"host", end.root.host},
                     {"rank", end.root.rank.value},
                     {"cause", end.root.cause},
                     {"reached", verdict != nullptr},
                     {"restart", verdict != nullptr && verdict->restart},
                     {"counts", verdict != nullptr && verdict->counts},
                     {"pause", verdict ? in_seconds(verdict->pause) : 0.0},
                     {"reason", verdict ? verdict->reason : ""},
                     {"leaves_out", leaves_out ? Json(*verdict->failing_host) : Json()}});
  }
  const Json json{{"policy", to_text(replay.rules)},
                  {"ended", replay.end() != nullptr},
                  {"restarts_used", replay.restarts_used},
                  {"restarts_left", replay.restarts_left},
                  {"failures", std::move(steps)}};
  return text_of_json(json) + "\n";
}

namespace {

using Json = nlohmann::json;

constexpr double trace_seconds_max = 5e9;  // the year 2128; still fits as nanoseconds
constexpr int rank_max = 100'000'000;
constexpr int exit_code_max = 255;

// The member if it has that type, otherwise none.
std::optional<double> number_at(const Json& json, const char* name) {
  const Json& found = member_or_null(json, name);
  if (!found.is_number()) return std::nullopt;
  const double value = found.get<double>();
  return value >= 0 && value <= trace_seconds_max ? std::optional(value) : std::nullopt;
}

std::string text_at(const Json& json, const char* name) {
  const Json& found = member_or_null(json, name);
  return found.is_string() ? plain_line(found.get<std::string>()) : "";
}

TimePoint moment(double seconds) {
  return TimePoint{std::chrono::round<std::chrono::milliseconds>(
      std::chrono::duration<double>(std::min(seconds, trace_seconds_max)))};
}

link::ExitStatus status_of(const Json& json) {
  if (const auto signal = signal_number(text_at(json, "signal"))) {
    return {.signalled = true, .value = *signal};
  }
  const double code = number_at(json, "exit_code").value_or(1);
  return {.signalled = false, .value = static_cast<int>(std::min<double>(code, exit_code_max))};
}

// A `failure` of an event or a report. Hand-written ones have the same members.
link::Failure traced_failure(const Json& json) {
  link::Failure failure{
      .rank =
          Rank{static_cast<int>(std::min<double>(number_at(json, "rank").value_or(0), rank_max))},
      .host = text_at(json, "host"),
      .status = status_of(json),
      .cause = text_at(json, "cause")};
  failure.consequence = json.value("consequence", Json()) == Json(true);
  return failure;
}

std::uint64_t step_at(const Json& json, const char* name) {
  return static_cast<std::uint64_t>(number_at(json, name).value_or(0));
}

TracedFailure made_up(const Json& json, double at, double before) {
  const double life = number_at(json, "life").value_or(at - before);
  TracedFailure failure{
      .at = moment(at),
      .end = {.root = traced_failure(json), .life = moment(life).time_since_epoch()}};
  failure.end.lost = failure.end.root.cause == link::node_lost;
  failure.end.reached = {step_at(json, "step"), step_at(json, "checkpoint_step")};
  return failure;
}

bool is_whole(const Json& value, int least, int most) {
  return value.is_number_integer() && value >= least && value <= most;
}

// Validates a hand-written failure. Returns what is wrong with it.
std::optional<std::string> fault_of(const Json& json) {
  for (const auto& [name, value] : json.items()) {
    if (name == "at" || name == "life" || name == "step" || name == "checkpoint_step") {
      if (!number_at(json, name.c_str())) return name + " is not a number of at least 0";
    } else if (name == "rank") {
      if (!is_whole(value, 0, rank_max)) return "rank is not a whole number of at least 0";
    } else if (name == "exit_code") {
      if (!is_whole(value, 1, exit_code_max))
        return "exit_code is not a whole number from 1 to 255";
    } else if (name == "signal") {
      if (!signal_number(text_at(json, "signal")))
        return "signal is not a signal name, such as SIGKILL";
    } else if (name == "cause") {
      const auto cause = text_at(json, "cause");
      if (find_cause(cause) == nullptr)
        return fmt::format("\"{}\" is not a cause listed in docs/failures.md", cause);
    } else if (name != "host" || !value.is_string()) {
      return fmt::format("unknown member \"{}\"", plain_line(name));
    }
  }
  return std::nullopt;
}

// What is known about one round.
struct Round {
  std::optional<double> began;
  std::optional<double> failed_at;
  std::optional<link::Failure> root;
  std::string reason;  // why its workers were stopped

  // Orders candidates for the root cause. A consequence is chosen only if there is nothing else,
  // and a lost node only if no worker failure is known.
  static auto place(const link::Failure& failure, double at) {
    return std::tuple{failure.consequence, failure.cause == link::node_lost, at};
  }
  void add(link::Failure failure, double at) {
    if (root && place(*root, *failed_at) <= place(failure, at)) return;
    root = std::move(failure);
    failed_at = at;
  }
};

using Rounds = std::map<std::int64_t, Round>;

Result<PolicyTrace> trace_of(const Rounds& rounds) {
  for (const auto& [number, round] : rounds) {
    if (round.root || !round.reason.ends_with(" failed")) continue;
    return failure(
        fmt::format("round {} ended because {}, but the trace does not contain that failure; use "
                    "the events of all nodes, or the report of the node that hosts the coordinator",
                    number, round.reason));
  }
  PolicyTrace trace{.failures = {}, .rounds = rounds.size()};
  std::optional<double> zero;
  for (const auto& [number, round] : rounds) {
    const auto first = round.began ? round.began : round.failed_at;
    if (first) zero = std::min(zero.value_or(*first), *first);
  }
  for (const auto& [number, round] : rounds) {
    if (!round.root) continue;
    const double at = *round.failed_at;
    const double life = std::max(at - round.began.value_or(at), 0.0);
    trace.failures.push_back({.at = moment(at - *zero),
                              .end = {.root = *round.root,
                                      .life = moment(life).time_since_epoch(),
                                      .lost = round.root->cause == link::node_lost}});
  }
  std::ranges::stable_sort(trace.failures, {}, &TracedFailure::at);
  return trace;
}

Result<PolicyTrace> trace_of_report(const Json& report, std::string_view job) {
  if (!text_at(report, "job").starts_with(job)) {
    return failure(fmt::format("the report is for job \"{}\"", text_at(report, "job")));
  }
  Rounds rounds;
  for (const Json& attempt : report.at("attempts")) {
    if (!attempt.is_object()) continue;
    Round& round = rounds[static_cast<std::int64_t>(number_at(attempt, "round").value_or(0))];
    round.began = number_at(attempt, "began");
    round.reason = text_at(attempt, "reason");
    const auto failure = attempt.find("failure");
    if (failure == attempt.end() || !failure->is_object()) continue;
    const auto ended = number_at(attempt, "ended").value_or(round.began.value_or(0));
    // The time of a lost node is unknown and reported as 0.
    const double time = number_at(*failure, "time").value_or(0);
    round.add(traced_failure(*failure), time > 0 ? time : ended);
  }
  return trace_of(rounds);
}

void take_event(const Json& json, double time, Rounds& rounds) {
  const auto number = static_cast<std::int64_t>(number_at(json, "round").value_or(0));
  const std::string name = text_at(json, "event");
  if (number < 1) return;
  if (name == "round_sealed") {
    auto& began = rounds[number].began;
    began = std::min(began.value_or(time), time);
  } else if (name == "worker_failed" && json.contains("failure") && json["failure"].is_object()) {
    const Json& failure = json["failure"];
    if (text_at(failure, "cause") == "told_to_end") return;  // stopped by cpprun itself
    rounds[number].add(traced_failure(failure), number_at(failure, "time").value_or(time));
  } else if (name == "draining") {
    rounds[number].reason = text_at(json, "reason");
  } else if (name == "node_lost" && number_at(json, "changed_node")) {  // it had a seat
    link::Failure lost{.host = text_at(json, "changed_host"), .status = {.value = 1}};
    lost.cause = link::node_lost;
    rounds[number].add(std::move(lost), time);
  }
}

std::string where(std::size_t line) {
  return fmt::format("line {} of the trace", line);
}

}  // namespace

Result<PolicyTrace> read_policy_trace(std::string_view text, std::string_view job) {
  const Json whole = parse_json(text);
  if (whole.is_object() && whole.contains("attempts") && whole["attempts"].is_array()) {
    return trace_of_report(whole, job);
  }
  Rounds rounds;
  PolicyTrace invented;
  std::set<std::string> jobs;
  std::size_t number = 0;
  double before = 0;
  std::optional<double> began;  // the last start of a first round
  std::optional<double> ended;  // the first end of a job
  for (const auto line : split(text, '\n')) {
    ++number;
    if (trimmed(line).empty()) continue;
    const Json json = parse_json(line);
    if (!json.is_object()) return failure(where(number) + " is not a JSON object");
    if (json.contains("at")) {
      if (const auto fault = fault_of(json)) return failure(where(number) + ": " + *fault);
      const auto at = number_at(json, "at");
      if (*at < before) return failure(where(number) + " is earlier than the line before it");
      invented.failures.push_back(made_up(json, *at, before));
      before = *at;
      continue;
    }
    const auto time = number_at(json, "time");
    if (!time || !json.contains("event")) {
      return failure(where(number) +
                     " is neither an event of --events nor a failure with \"at\" in seconds");
    }
    const std::string of = text_at(json, "job");
    if (!of.starts_with(job)) continue;
    jobs.insert(of);
    if (text_at(json, "event") == "job_ended") ended = std::min(ended.value_or(*time), *time);
    const bool is_first = text_at(json, "event") == "round_sealed" && number_at(json, "round") == 1;
    if (is_first) began = std::max(began.value_or(*time), *time);
    take_event(json, *time, rounds);
  }
  if (jobs.size() > 1) {
    return failure(fmt::format("the trace has {} jobs: {}; choose one with --job", jobs.size(),
                               fmt::join(jobs, ", ")));
  }
  if (began > ended && ended) {
    return failure(fmt::format("the trace has several runs of job \"{}\"; use a trace of only one",
                               *jobs.begin()));
  }
  if (!jobs.empty() && !invented.failures.empty()) {
    return failure("the trace mixes events and failures written by hand; use only one kind");
  }
  if (jobs.empty() && invented.failures.empty()) {
    return failure(job.empty() ? std::string("the trace is empty")
                               : fmt::format("the trace does not contain job \"{}\"", job));
  }
  if (jobs.empty()) {
    invented.rounds = invented.failures.size();
    return invented;
  }
  return trace_of(rounds);
}

}  // namespace cpprun
