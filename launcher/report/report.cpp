// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/failure/causes.h"
#include "launcher/report/bounds.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/logging.h"

namespace cpprun {

void Attempts::begin(WallTime now, const link::Sealed& sealed) {
  if (!attempts_.empty()) {
    Attempt& before = attempts_.back();
    before.ended = now;
    const bool is_next = before.round.value + 1 == sealed.round.value;
    const auto& verdict = sealed.failed_before;
    // For this node's own worker, the local record has more detail than the message.
    const bool is_own = before.failure && verdict && before.failure->pid == verdict->pid &&
                        before.failure->rank == verdict->rank;
    if (is_next && verdict && !is_own) before.failure = verdict;
  }
  attempts_.push_back(
      {.round = sealed.round, .restart = sealed.restart_count, .began = now, .reason = ""});
  constexpr auto first = bounds::first_attempts_kept_max;
  if (attempts_.size() <= first + bounds::last_attempts_kept_max) return;
  attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(first));
  ++left_out_;
}

void Attempts::draining(const std::string& reason) {
  if (!attempts_.empty() && attempts_.back().reason.empty()) attempts_.back().reason = reason;
}

void Attempts::failed(const link::Failure& failure) {
  if (attempts_.empty()) return;
  auto& known = attempts_.back().failure;
  if (!known || (known->consequence && !failure.consequence)) known = failure;
}

void Attempts::worker_restarted(Rank rank) {
  if (attempts_.empty()) return;
  Attempt& running = attempts_.back();
  ++running.worker_restarts;
  if (running.failure && running.failure->rank == rank) running.failure.reset();
}

void Attempts::judged(const link::Failure& root) {
  if (!attempts_.empty()) attempts_.back().failure = root;
}

std::vector<Attempt> Attempts::list(WallTime now) const {
  auto all = attempts_;
  if (!all.empty() && all.back().ended == WallTime{}) all.back().ended = now;
  return all;
}

void ReportFacts::hear(WallTime now, const events::Event& event) {
  std::visit(Overloaded{
                 [&](const events::RoundSealed& m) {
                   restarts = m.sealed.restart_count;
                   ends.clear();
                   hang.reset();
                   attempts.begin(now, m.sealed);
                 },
                 [&](const events::HangFound& m) { hang = m; },
                 [&](const events::WorkerFailed& m) {
                   if (m.failure.cause != told_to_end) attempts.failed(m.failure);
                   ends.push_back(m.end);
                 },
                 [&](const events::WorkerRestarting& m) {
                   restarts = std::max(restarts, m.restart_count);
                   std::erase_if(ends, [&](const DiagnosedEnd& each) {
                     return each.evidence().outcome.rank == m.rank;
                   });
                   attempts.worker_restarted(m.rank);
                 },
                 [&](const events::Draining& m) { attempts.draining(m.reason); },
                 [&](const events::RoundJudged& m) { attempts.judged(m.root); },
                 [&](const events::LeaderChanged& m) {
                   if (leader_changes.size() >= leader_changes_max) {
                     leader_changes.erase(leader_changes.begin());
                     ++leader_changes_left_out;
                   }
                   leader_changes.emplace_back(now, m);
                 },
                 [&](const events::JobEnded& m) {
                   ended = now;
                   exit_code = m.exit_code;
                   reason = m.reason;
                   root = m.root;
                   consequences = m.consequences;
                   consequence_count = m.consequence_count;
                   restarts = std::max(restarts, m.restarts);
                   time = m.time;
                   group_rank = m.group_rank;
                 },
                 [](const auto&) {},
             },
             event);
}

namespace {

constexpr std::size_t box_width = 60;
// Number of consequences listed one by one; the rest is summarized in a line.
constexpr std::size_t others_max = 16;

std::string indented(std::string_view text, std::string_view margin) {
  return fmt::format("{}", fmt::join(split(text, '\n'), fmt::format("\n{}", margin)));
}

std::string without_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// One failure in torchrun's layout. Tools that parse it depend on the names of its fields.
std::string block_text(std::size_t index, const link::Failure& failure, const ReportFacts& facts,
                       const std::string& traceback, const std::string& error_file = "") {
  const auto& status = failure.status;
  const int code = status.signalled ? -status.value : status.value;
  const auto signal = status.signalled ? fmt::format(" ({})", signal_name(status.value)) : "";
  return fmt::format(
      "[{}]:\n"
      "  time      : {}\n"
      "  host      : {}\n"
      "  rank      : {} (local_rank: {})\n"
      "  exitcode  : {} (pid: {}){}\n"
      "  error_file: {}\n"
      "  traceback : {}\n",
      index, local_time_text(failure.time, facts.utc_offset_seconds), failure.host,
      failure.rank.value, failure.local_rank.value, code, failure.pid, signal,
      error_file.empty() ? "<N/A>" : error_file, indented(without_end(traceback), "  "));
}

// Only the last few lines; the others were kept for the rules.
std::string shown_lines(const std::vector<std::string>& lines) {
  const auto skipped = lines.size() - std::min(lines.size(), bounds::last_lines_shown_max);
  std::string text;
  for (auto i = skipped; i < lines.size(); ++i) text += "\n  " + lines[i];
  return text;
}

std::string seen_before_kill(const DiagnosedEnd& end) {
  const auto& last_seen = end.evidence().host_facts.last_seen;
  return last_seen.empty() ? "" : "\nbefore SIGKILL " + last_seen;
}

// Everything seen of a failure: how it ended, its message, its traceback or its last lines.
std::string story(const DiagnosedEnd& end) {
  const Diagnosis& diagnosis = end.diagnosis();
  const Evidence& evidence = end.evidence();
  auto text = diagnosis.ending;
  text += seen_before_kill(end);
  if (!diagnosis.traceback.empty()) {
    text += "\n" + without_end(diagnosis.traceback);
    // Most tracebacks end with the message; add it if this one does not.
    if (diagnosis.traceback.find(diagnosis.message) == std::string::npos) {
      text += "\n" + diagnosis.message;
    }
  } else if (!evidence.last_lines.empty()) {
    if (diagnosis.message != evidence.last_lines.back()) text += "\n" + diagnosis.message;
    text += evidence.with_stdout ? "\nlast lines of its output:" : "\nlast lines of its stderr:";
    text += shown_lines(evidence.last_lines);
  } else if (!diagnosis.message.empty()) {
    text += "\n" + diagnosis.message;
  } else if (evidence.on_console && evidence.outcome.pid != 0) {
    text += "\nsee its output above";
  }
  return text;
}

std::string block_text(std::size_t index, const DiagnosedEnd& end, const ReportFacts& facts,
                       const std::string& traceback) {
  auto failure = failure_of(end, facts.group_rank, facts.host);
  failure.status = end.evidence().outcome.status;  // a worker that still runs has none
  return block_text(index, failure, facts, traceback, end.evidence().error_file);
}

// The failure of another node's worker, or of a worker that left early.
std::string block_text(link::Failure root, const ReportFacts& facts) {
  root.status = own_status(root);
  auto text = to_text(root.status);
  // The message of a worker that left early already says how it ended.
  if (root.cause == left_early) text.clear();
  if (!root.message.empty()) text += (text.empty() ? "" : "\n") + root.message;
  return block_text(0, root, facts, text);
}

// cpprun stopped this worker because another one failed, and nothing else is known about it.
bool was_only_stopped(const DiagnosedEnd& end) {
  return end.diagnosis().cause == told_to_end && seen_before_kill(end).empty();
}

// How a worker ended that is not the root cause, and why it is not.
std::string victim_text(const DiagnosedEnd& end, const ReportFacts& facts) {
  const Diagnosis& diagnosis = end.diagnosis();
  auto words = diagnosis.ending;
  const auto seen = seen_before_kill(end);
  if (!facts.root) return words + seen;
  if (diagnosis.cause == told_to_end) {
    return fmt::format("{} after rank {} failed{}", words, facts.root->rank.value, seen);
  }
  if (!diagnosis.message.empty()) words += "\n" + diagnosis.message;
  if (!diagnosis.consequence) return words + "\n" + diagnosis.reason;
  return fmt::format("{}\nas a consequence of the failure of rank {}: {}", words,
                     facts.root->rank.value, diagnosis.reason);
}

// "0-2, 4".
std::string ranges_text(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (std::size_t first = 0, next = 0; first < numbers.size(); first = next) {
    for (next = first + 1; next < numbers.size() && numbers[next] <= numbers[next - 1] + 1;) ++next;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[first]);
    if (numbers[next - 1] != numbers[first]) text += fmt::format("-{}", numbers[next - 1]);
  }
  return text;
}

// The consequences on this node, in the order in which they were noticed. Workers that cpprun
// stopped share one line.
std::string others_text(const ReportFacts& facts, const DiagnosedEnd* root) {
  std::vector<const DiagnosedEnd*> others;
  std::vector<int> stopped;
  for (const auto& each : facts.ends) {
    if (&each == root) continue;
    if (facts.root && was_only_stopped(each)) {
      stopped.push_back(each.evidence().outcome.rank.value);
    } else {
      others.push_back(&each);
    }
  }
  if (others.empty() && stopped.empty()) return "  <NO_OTHER_FAILURES>\n";
  std::stable_sort(others.begin(), others.end(), [](const auto* a, const auto* b) {
    return a->evidence().outcome.time < b->evidence().outcome.time;
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(others.size(), others_max); ++i) {
    text += block_text(i + 1, *others[i], facts, victim_text(*others[i], facts));
  }
  if (others.size() > others_max) {
    text += fmt::format("  ... and {} more workers of this node\n", others.size() - others_max);
  }
  if (!stopped.empty()) {
    text += stopped.size() == 1 ? fmt::format("  1 other rank of this node was stopped (rank {})\n",
                                              stopped.front())
                                : fmt::format("  {} other ranks of this node were stopped ({})\n",
                                              stopped.size(), ranges_text(stopped));
  }
  return text;
}

// Omits the id if it is torchrun's default, "none".
std::string job_text(const std::string& id) {
  return id.empty() || id == "none" ? "job" : "job " + id;
}

// "job j failed: rank 1 (local rank 1, pid 5, on node0) exited with code 3".
std::string headline(const ReportFacts& facts, const DiagnosedEnd* own) {
  if (!facts.root) return fmt::format("{} failed: {}", job_text(facts.job), facts.reason);
  const auto& root = *facts.root;
  if (root.cause == link::node_lost) {
    return fmt::format("{} failed: {}", job_text(facts.job), root.message);
  }
  const auto ending = own != nullptr                           ? own->diagnosis().ending
                      : root.pid == 0 && !root.message.empty() ? root.message
                                                               : to_text(own_status(root));
  const auto pid = root.pid == 0 ? std::string() : fmt::format("pid {}, ", root.pid);
  return fmt::format("{} failed: rank {} (local rank {}, {}on {}) {}", job_text(facts.job),
                     root.rank.value, root.local_rank.value, pid, root.host, ending);
}

// The reason and the advice, one line each. For another node's worker only the cause's id was sent.
std::string verdict_lines(const ReportFacts& facts, const DiagnosedEnd* own) {
  std::string reason;
  std::string advice;
  std::string id = facts.root ? facts.root->cause : "";
  if (own != nullptr) {
    const Diagnosis& diagnosis = own->diagnosis();
    reason = diagnosis.reason;
    advice = diagnosis.advice;
    id = diagnosis.cause;
  } else if (const auto* cause = find_cause(id)) {
    reason = id == left_early
                 ? fmt::format("the rank {}; it probably ran out of data", facts.root->message)
                 : std::string(cause->sentence);
    if (id == "stray_interface") reason += fmt::format(" ({})", facts.root->message);
    advice = cause_advice(*cause, facts.program.empty() ? "" : facts.program.front());
  }
  if (facts.hang && (id == "peer_silent" || id == "peer_missing")) {
    advice = "see the verdict above; init_process_group sets the timeout";
  }
  std::string text;
  if (!reason.empty()) text += fmt::format("cpprun: why: {} [{}]\n", reason, id);
  if (!advice.empty()) text += fmt::format("cpprun: hint: {}\n", advice);
  return text;
}

// The consequences on other nodes; this node's are in the box.
std::string elsewhere_line(const ReportFacts& facts) {
  std::vector<std::string> ends;
  int here = 0;
  for (const link::Consequence& each : facts.consequences) {
    if (each.group_rank == facts.group_rank) {
      ++here;
      continue;
    }
    ends.push_back(fmt::format("rank {} (node {}) {}", each.rank.value, each.group_rank.value,
                               to_text(each.status)));
  }
  const int untold = facts.consequence_count - here - static_cast<int>(ends.size());
  if (untold > 0) ends.push_back(fmt::format("{} more", untold));
  if (ends.empty()) return {};
  return fmt::format("cpprun: consequences on other nodes: {}\n", fmt::join(ends, ", "));
}

// The last few changes of the leading cpprund.
std::string leader_lines(const ReportFacts& facts) {
  constexpr std::size_t told_max = 3;
  const auto& all = facts.leader_changes;
  if (all.empty()) return {};
  const std::size_t times = all.size() + facts.leader_changes_left_out;
  std::string text =
      fmt::format("cpprun: leadership moved {} time{}", times, times == 1 ? "" : "s");
  const std::size_t first = all.size() - std::min(all.size(), told_max);
  for (std::size_t at = first; at < all.size(); ++at) {
    const auto& [time, change] = all[at];
    text += fmt::format("{} to {} from {} at {}, {:.3f} s without a response",
                        at == first ? ":" : ";", to_string(change.to), to_string(change.from),
                        without_end(log_time(time)), in_seconds(change.silence));
  }
  return text + "\n";
}

// What ran, for how long, and where its output is.
std::string closing_lines(const ReportFacts& facts) {
  std::string text;
  if (!facts.program.empty()) {
    const double seconds = in_seconds(facts.ended - facts.started);
    text +=
        fmt::format("cpprun: ran for {}: {}\n", span_text(seconds), fmt::join(facts.program, " "));
  }
  // For a shorter job, the times in the log are enough.
  if (facts.time && facts.time->wall >= std::chrono::minutes(1)) {
    text += fmt::format("cpprun: time: {}\n", to_text(*facts.time));
  }
  text += leader_lines(facts);
  if (!facts.logs.empty()) text += fmt::format("cpprun: the logs are in {}\n", facts.logs);
  return text;
}

// torchrun's box.
std::string box(const ReportFacts& facts, const DiagnosedEnd* own) {
  const auto title = fmt::format("{} FAILED", facts.entrypoint);
  const auto others = others_text(facts, own);
  const auto root = own != nullptr ? block_text(0, *own, facts, story(*own))
                    : facts.root   ? block_text(*facts.root, facts)
                                   : fmt::format("  not a worker of this job: {}\n", facts.reason);
  const std::string double_line(box_width, '=');
  const std::string single_line(box_width, '-');
  return fmt::format("\n{}\n{}\n{}\nFailures:\n{}{}\nRoot Cause (first observed failure):\n{}{}\n",
                     double_line, title, single_line, others, single_line, root, double_line);
}

}  // namespace

std::string local_time_text(WallTime time, int utc_offset_seconds) {
  using namespace std::chrono;
  const auto local = floor<seconds>(time) + seconds(utc_offset_seconds);
  const auto day = floor<days>(local);
  const year_month_day date(day);
  const hh_mm_ss clock(local - day);
  return fmt::format("{:04}-{:02}-{:02}_{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

const DiagnosedEnd* own_root(const ReportFacts& facts) {
  if (!facts.root || facts.root->group_rank != facts.group_rank) return nullptr;
  for (const DiagnosedEnd& each : facts.ends) {
    const Outcome& outcome = each.evidence().outcome;
    if (outcome.rank == facts.root->rank && outcome.pid == facts.root->pid) return &each;
  }
  return nullptr;
}

std::string report(const ReportFacts& facts) {
  const auto* own = own_root(facts);
  const bool is_elsewhere = facts.root && facts.root->group_rank != facts.group_rank;
  const bool is_short = is_elsewhere && !facts.master;
  std::string last = "cpprun: " + headline(facts, own);
  if (is_short) {
    if (!facts.root->cause.empty()) last += fmt::format(" [{}]", facts.root->cause);
    last += fmt::format("; this is node {} on {}", facts.group_rank.value, facts.host);
  }
  if (facts.colour) last = fmt::format("\x1b[1;31m{}\x1b[0m", last);
  if (is_short) return last + "\n";
  return box(facts, own) + elsewhere_line(facts) + closing_lines(facts) + last + "\n" +
         verdict_lines(facts, own);
}

}  // namespace cpprun
