// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "launcher/failure/bounds.h"
#include "launcher/failure/causes.h"
#include "launcher/failure/evidence.h"
#include "launcher/output/lines.h"
#include "proto/text.h"
#include "rendezvous/job/bounds.h"

namespace cpprun {

namespace {

std::string not_started(const SpawnError& error, const std::string& executable) {
  const auto what = error.stage == SpawnStage::exec ? fmt::format("execute \"{}\"", executable)
                                                    : to_text(error.stage);
  // At the other stages ETIMEDOUT is cpprun's own time limit on file access. It also fits a file
  // server that gives up.
  const bool silent = error.error_number == ETIMEDOUT && error.stage != SpawnStage::exec;
  return fmt::format("could not be started: cannot {}: {}", what,
                     silent ? "its disk does not respond" : errno_text(error.error_number));
}

// The last line that is not blank: a Python traceback ends with the exception itself.
std::string last_word(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->find_first_not_of(" \t") != std::string::npos) return *line;
  }
  return "";
}

// What this case adds to the sentence of its cause.
std::string detail_of(std::string_view cause, const Evidence& evidence) {
  const auto& around = evidence.host_facts;
  if (cause == "wrong_machine" || cause == "interpreter_missing") return around.exec_detail;
  if (cause == "out_of_memory" && !around.memory_limit.empty()) {
    return fmt::format("cgroup limit {}", around.memory_limit);
  }
  if (cause == "disk_full" && !around.full_disks.empty()) {
    return fmt::format("{}", fmt::join(around.full_disks, ", "));
  }
  if (cause == "shared_memory_small") return around.small_shm;
  if (cause == "stuck_in_kernel" || cause == "hung") return around.last_seen;
  if (cause == "stray_interface") return around.unreachable_interface;
  // For a crash the kernel's log names the library, and drivers log their own errors.
  const auto& status = evidence.outcome.status;
  if (status.signalled && !around.kernel_lines.empty()) return around.kernel_lines.back();
  return "";
}

// A worker's text as it is sent in messages: one line, printable, limited in length.
std::string travelling(const std::string& words) {
  const auto clean = printable(words);
  std::string_view text = clean;
  std::string result;
  while (!text.empty() && result.size() + 4 <= bounds::failure_message_bytes_max) {
    const auto length = first_character(text).bytes;
    const bool blank = text.front() == '\n' || text.front() == '\t';
    result += blank ? " " : text.substr(0, length);
    text.remove_prefix(length);
  }
  return result;
}

// The language that wrote an error file. Python's has a traceback. C++'s has a stack without one,
// or begins with a qualified exception type such as std::runtime_error. Anything else is unknown.
Recorder recorder_of(const WorkerError& error) {
  if (error.traceback.starts_with("Traceback")) return Recorder::python;
  const auto type = error.message.substr(0, error.message.find(": "));
  const bool named = type.size() < error.message.size() && type.find(' ') == std::string::npos;
  if (named && type.find("::") != std::string::npos) return Recorder::cpp;
  // "ValueError: bad label", without a traceback.
  const bool of_python =
      named && !type.empty() && (type.ends_with("Error") || type.ends_with("Exception"));
  if (of_python && error.traceback.empty()) return Recorder::python;
  return error.traceback.empty() ? Recorder::unknown : Recorder::cpp;
}

std::string reason_of(const Cause& cause, const Evidence& evidence) {
  auto reason = std::string(cause.sentence);
  const auto detail = detail_of(cause.id, evidence);
  return detail.empty() ? reason : fmt::format("{} ({})", reason, detail);
}

Diagnosis diagnose(const Evidence& evidence) {
  Diagnosis diagnosis;
  diagnosis.ending = to_text(evidence.outcome, evidence.executable);
  WorkerOutput worker_output{.recorded = "", .lines = evidence.last_lines};
  std::string problem;
  if (!evidence.error_text.empty()) {
    if (auto error = parse_error_file(evidence.error_text)) {
      worker_output.recorded = error->message;
      worker_output.recorder = recorder_of(*error);
      diagnosis.message = std::move(error->message);
      diagnosis.traceback = std::move(error->traceback);
    } else {
      problem = error.error().reason;
    }
  }
  const auto verdict = judge_cause(evidence, worker_output);
  if (diagnosis.message.empty()) diagnosis.message = verdict.line;
  if (diagnosis.message.empty()) diagnosis.message = last_word(evidence.last_lines);
  if (const auto* cause = find_cause(verdict.cause)) {
    diagnosis.cause = cause->id;
    diagnosis.reason = reason_of(*cause, evidence);
    diagnosis.advice = cause_advice(*cause, evidence.executable);
    const auto module = missing_module({diagnosis.message});
    if (cause->id == "python_module_missing" && !module.empty()) {
      diagnosis.advice =
          missing_module_advice(module, evidence.host_facts.module, evidence.executable);
    }
    if (cause->id == "silent_exit" && !evidence.stderr_file.empty()) {
      diagnosis.advice = "see the end of its output in " + evidence.stderr_file;
    }
    diagnosis.consequence = cause->consequence;
  }
  if (!problem.empty()) {
    diagnosis.reason += diagnosis.reason.empty() ? problem : "; " + problem;
  }
  return diagnosis;
}

}  // namespace

std::string to_text(const link::ExitStatus& status) {
  if (!status.signalled) return fmt::format("exited with code {}", status.value);
  const auto meaning = signal_meaning(status.value);
  return meaning.empty() ? fmt::format("was killed by {}", signal_name(status.value))
                         : fmt::format("was killed by {} ({})", signal_name(status.value), meaning);
}

std::string to_text(const Outcome& outcome, const std::string& executable) {
  if (outcome.spawn_error) return not_started(*outcome.spawn_error, executable);
  if (outcome.hung_for && !outcome.verdict.empty()) {
    return fmt::format("stopped by cpprun: no rank made progress for {:.0f} s; {}",
                       in_seconds(*outcome.hung_for), outcome.verdict);
  }
  if (outcome.hung_for) {
    return fmt::format("hung: no heartbeat for {:.1f} s; terminated by cpprun",
                       in_seconds(*outcome.hung_for));
  }
  if (outcome.given_up) return "did not exit after SIGKILL and was abandoned";
  if (outcome.our_signal == 0) return to_text(outcome.status);
  const auto signal = signal_name(outcome.our_signal);
  if (outcome.obeyed()) return fmt::format("terminated by cpprun ({})", signal);
  return fmt::format("{} after cpprun sent {}", to_text(outcome.status), signal);
}

link::ExitStatus own_status(const link::Failure& failure) {
  return failure.cause == left_early ? link::ExitStatus{} : failure.status;
}

std::string cause_advice(const Cause& cause, const std::string& executable) {
  constexpr std::string_view place = "{program}";
  std::string advice(cause.advice);
  if (const auto at = advice.find(place); at != std::string::npos) {
    advice.replace(at, place.size(), executable);
  }
  return advice;
}

DiagnosedEnd::DiagnosedEnd(Evidence evidence)
    : evidence_(std::move(evidence)), diagnosis_(diagnose(evidence_)) {}

link::Failure failure_of(const DiagnosedEnd& end, GroupRank group_rank, const std::string& host) {
  const Diagnosis& diagnosis = end.diagnosis();
  const Outcome& outcome = end.evidence().outcome;
  link::Failure failure;
  failure.rank = outcome.rank;
  failure.local_rank = outcome.local_rank;
  failure.group_rank = group_rank;
  failure.host = host;
  failure.pid = outcome.pid;
  failure.status = outcome.status;
  failure.time = outcome.time;
  const bool unusual = outcome.spawn_error || outcome.given_up || outcome.hung_for;
  // A worker that is still running has no status of its own; a failure must not be sent as success.
  if (failure.status == link::ExitStatus{}) failure.status.value = 1;
  failure.message = travelling(unusual ? diagnosis.ending : diagnosis.message);
  // Name the interface and the one to use instead: this says more than that nothing was connected.
  const auto& stray = end.evidence().host_facts.unreachable_interface;
  if (diagnosis.cause == "stray_interface" && !stray.empty()) failure.message = travelling(stray);
  failure.cause = diagnosis.cause;
  failure.consequence = diagnosis.consequence;
  return failure;
}

namespace {

// The worker reported an exception of its own, or another process killed it with SIGKILL. A crash
// does not count: it may happen in the worker's cleanup, after it was asked to stop.
bool had_its_own_end(const link::Failure& failure) {
  return failure.cause == "python_exception" || failure.cause == "cpp_exception" ||
         failure.status == link::ExitStatus{.signalled = true, .value = SIGKILL};
}

}  // namespace

// After a restart alone, the end of the process before may have been noticed meanwhile.
void PendingFailures::started(TimePoint now, LocalRank rank) {
  started_.insert_or_assign(rank, now);
  noticed_.erase(rank);
}

void PendingFailures::noticed(TimePoint now, LocalRank rank) {
  noticed_.emplace(rank, now);
}

void PendingFailures::restarted(LocalRank rank) {
  started_.erase(rank);
  noticed_.erase(rank);
  told_ = 0;
  told_a_cause_ = false;
}

std::optional<link::Failed> PendingFailures::first_to_leave(const std::vector<Outcome>& outcomes,
                                                            const Attempt& place) const {
  const Outcome* first = nullptr;
  TimePoint first_at{};
  for (const Outcome& each : outcomes) {
    const auto noticed = noticed_.find(each.local_rank);
    const bool left = noticed != noticed_.end() && each.good() && each.our_signal == 0;
    if (!left || (first != nullptr && first_at <= noticed->second)) continue;
    first = &each;
    first_at = noticed->second;
  }
  const auto started = first == nullptr ? started_.end() : started_.find(first->local_rank);
  if (started == started_.end()) return std::nullopt;
  return link::Failed{
      .round = place.round,
      .failure = {.rank = first->rank,
                  .local_rank = first->local_rank,
                  .group_rank = place.group_rank,
                  .host = place.host,
                  .pid = first->pid,
                  .status = {.signalled = false, .value = 1},
                  .time = first->time,
                  // Short, so that it fits every node's message limit.
                  .message = fmt::format("exited with code 0 after {:.1f} s while others still "
                                         "communicated",
                                         in_seconds(first_at - started->second)),
                  .cause = std::string(left_early),
                  .consequence = true},
      .noticed = std::chrono::duration_cast<link::AgentTime>(first_at.time_since_epoch())};
}

PendingFailures::Judged PendingFailures::judge(Evidence evidence, const Attempt& place) {
  DiagnosedEnd end{std::move(evidence)};
  link::Failure failure = failure_of(end, place.group_rank, place.host);
  auto told = told_of(failure, place);
  return {.end = std::move(end), .failure = std::move(failure), .told = std::move(told)};
}

std::optional<link::Failed> PendingFailures::told_of(const link::Failure& failure,
                                                     const Attempt& place) {
  const LocalRank rank = failure.local_rank;
  const bool is_enough = told_ >= bounds::failures_told_max && !place.restarts_alone;
  if (awaited_.erase(rank) == 0 || is_enough) return std::nullopt;
  const auto noticed = noticed_.find(rank);
  if (stopped_at_ && (noticed == noticed_.end() || noticed->second > *stopped_at_)) {
    return std::nullopt;
  }
  if (failure.cause == told_to_end) return std::nullopt;
  link::Failed failed{.round = place.round, .failure = failure};
  if (noticed != noticed_.end()) {
    // Clocks of two nodes agree only to a few milliseconds, and they drift. This order is certain.
    failed.late = drained_at_ && noticed->second > *drained_at_;
    // If all failures so far were consequences, a worker that failed by itself may be the root
    // cause, even if it had been asked to stop meanwhile. Ending by an exception or a signal takes
    // milliseconds; noticing a lost connection takes less. The coordinator accounts for failures on
    // other nodes.
    const bool is_excused = !told_a_cause_ && had_its_own_end(failure);
    failed.failure.consequence = failure.consequence || (failed.late && !is_excused);
    failed.noticed =
        std::chrono::duration_cast<link::AgentTime>(noticed->second.time_since_epoch());
  }
  std::string& message = failed.failure.message;
  // The user reads the first failure's message. Later ones are only supplementary.
  if (told_ > 0 && !place.restarts_alone)
    message.resize(length_within(message, bounds::later_message_bytes_max));
  ++told_;
  told_a_cause_ = told_a_cause_ || !failed.failure.consequence;
  return failed;
}

}  // namespace cpprun
