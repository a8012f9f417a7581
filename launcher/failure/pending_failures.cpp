// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/pending_failures.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

// It has said itself what ended it, or somebody else has killed it; a crash may be one of its
// clearing up, after it was asked to end.
bool had_its_own_end(const link::Failure& failure) {
  return failure.cause == "python_exception" || failure.cause == "cpp_exception" ||
         failure.status == link::ExitStatus{.signalled = true, .value = SIGKILL};
}

}  // namespace

void PendingFailures::noticed(TimePoint now, LocalRank rank) {
  noticed_.emplace(rank, now);
}

std::optional<link::Failed> PendingFailures::first_to_leave(const std::vector<Outcome>& outcomes,
                                                            const Place& place) const {
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
                  // Few bytes, so that no node's frame cuts them.
                  .message = fmt::format("exited with 0 after {:.1f} s while others still "
                                         "communicated",
                                         in_seconds(first_at - started->second)),
                  .cause = std::string(left_early),
                  .consequence = true},
      .noticed = std::chrono::duration_cast<link::AgentTime>(first_at.time_since_epoch())};
}

PendingFailures::Judged PendingFailures::judge(Evidence evidence, const Place& place) {
  DiagnosedEnd end{std::move(evidence)};
  link::Failure failure = failure_of(end, place.group_rank, place.host);
  auto told = told_of(failure, place);
  return {.end = std::move(end), .failure = std::move(failure), .told = std::move(told)};
}

std::optional<link::Failed> PendingFailures::told_of(const link::Failure& failure,
                                                     const Place& place) {
  const LocalRank rank = failure.local_rank;
  if (awaited_.erase(rank) == 0 || told_ == bounds::failures_told_max) return std::nullopt;
  const auto noticed = noticed_.find(rank);
  if (stopped_at_ && (noticed == noticed_.end() || noticed->second > *stopped_at_)) {
    return std::nullopt;
  }
  if (failure.cause == told_to_end) return std::nullopt;
  link::Failed failed{.round = place.round, .failure = failure};
  if (noticed != noticed_.end()) {
    // Clocks of two nodes are known to a few milliseconds only, and drift; this is certain.
    failed.late = drained_at_ && noticed->second > *drained_at_;
    // Where all that ended before only noticed somebody's end, whoever was told to end meanwhile,
    // and had an end of its own, may well be that one: it takes milliseconds to end by an
    // exception or of a signal, and less to notice a connection that is gone. Of other nodes the
    // coordinator knows.
    const bool is_excused = !told_a_cause_ && had_its_own_end(failure);
    failed.failure.consequence = failure.consequence || (failed.late && !is_excused);
    failed.noticed =
        std::chrono::duration_cast<link::AgentTime>(noticed->second.time_since_epoch());
  }
  std::string& message = failed.failure.message;
  // The first one's words are what people will read; of the others they are a hint.
  if (told_ > 0) message.resize(length_within(message, bounds::later_message_bytes_max));
  ++told_;
  told_a_cause_ = told_a_cause_ || !failed.failure.consequence;
  return failed;
}

}  // namespace cpprun
