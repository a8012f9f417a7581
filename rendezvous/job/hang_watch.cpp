// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/hang_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/text.h"
#include "rendezvous/hang/evidence_json.h"
#include "rendezvous/job/job_texts.h"

namespace cpprun {

namespace {

// An agent gives its workers 2 s to answer.
constexpr Duration evidence_timeout = std::chrono::seconds(5);
// Between two passes over all nodes, of which there may be ten thousand.
constexpr Duration pause_between_passes = std::chrono::seconds(1);
constexpr Duration verdict_timeout_least = std::chrono::seconds(30);
// Each rank that waits times out, and a script may handle that and try again. One capture tells
// enough.
constexpr Duration pause_between_timeouts = std::chrono::seconds(60);

bool runs(const Member& member) {
  return member.state == Member::State::running;
}

// Whether the node reports only about its own ranks.
bool is_own(const hang::Evidence& evidence, const Member& member) {
  const int first = member.ranks.base.value;
  const int end = first + member.join.local_world_size;
  const auto is_within = [&](const auto& each) {
    return each.ranks.empty() ||
           (each.ranks.first().value >= first && each.ranks.last().value < end);
  };
  return std::ranges::all_of(evidence.clusters, is_within) &&
         std::ranges::all_of(evidence.positions, is_within) &&
         std::ranges::all_of(evidence.unread, is_within);
}

std::string cut(std::string line) {
  constexpr std::string_view mark = "…";
  if (line.size() <= link::verdict_line_bytes_max) return line;
  line.resize(length_within(line, link::verdict_line_bytes_max - mark.size()));
  return line + std::string(mark);
}

}  // namespace

void HangWatch::follow(const Round& round) {
  if (round.number() == round_) return;
  round_ = round.number();
  quiet_.clear();
  due_.reset();
  is_noted_ = false;
  told_until_.reset();
  timed_out_at_.reset();
  gathering_.reset();
}

void HangWatch::heard(TimePoint now, LinkId link, const link::Heartbeat& beat, const Round& round,
                      Actions& actions) {
  follow(round);
  if (beat.timed_out) timed_out(now, round, actions);
  if (beat.quiet > Duration{} && beat.hang_timeout > Duration{}) {
    quiet_.insert_or_assign(link, Quiet{now - beat.quiet, beat.hang_timeout, now});
    consider(now, round);
  } else if (quiet_.erase(link) > 0) {
    due_.reset();
    is_noted_ = false;
    if (gathering_) gathering_->is_for_hang = false;
  }
}

// Which nodes are here, and since when each is quiet, is computed only when it is due.
void HangWatch::consider(TimePoint now, const Round& round) {
  const bool may_be_all = quiet_.size() >= round.count(Member::State::running);
  if (may_be_all && !due_ && !told_until_) due_ = std::max(now, next_look_);
}

// A node in the coordinator's own process reports again only when something changes.
void HangWatch::succeeded(TimePoint now, const Round& round) {
  follow(round);
  if (!quiet_.empty()) consider(now, round);
}

std::optional<HangWatch::Quiet> HangWatch::quiet(const Round& round, TimePoint confirmed) const {
  std::optional<Quiet> all;
  bool is_moving = false;
  round.each([&](LinkId link, const Member& member) {
    if (!runs(member) || is_moving) return;
    const auto found = quiet_.find(link);
    // The agent in the coordinator's own process speaks only when something changes.
    is_moving = found == quiet_.end() || !member.connected ||
                (!member.local && found->second.heard <= confirmed);
    if (is_moving) return;
    if (!all) all = found->second;
    all->since = std::max(all->since, found->second.since);
    all->timeout = std::max(all->timeout, found->second.timeout);
  });
  return is_moving ? std::nullopt : all;
}

std::uint64_t HangWatch::capture(TimePoint now, const Round& round, bool native, Actions& actions) {
  follow(round);
  if (!gathering_) begin(now, round, {.native = native}, actions);
  return captures_;
}

// The nodes are asked even while they reply to another request: those workers may have changed.
void HangWatch::timed_out(TimePoint now, const Round& round, Actions& actions) {
  if (timed_out_at_ && now - *timed_out_at_ < pause_between_timeouts) return;
  timed_out_at_ = now;
  const bool native = gathering_ && gathering_->request.native;  // an operator's
  begin(now, round, {.native = native, .is_timeout = true}, actions);
}

void HangWatch::begin(TimePoint now, const Round& round, link::Capture request, Actions& actions) {
  request.round = round.number();
  request.number = ++captures_;
  gathering_ = Gathering{.request = request,
                         .begun = now,
                         .until = now + evidence_timeout,
                         .parts = {},
                         .evidence = {},
                         .silent_nodes = {}};
  for (const auto& [link, member] : round.members()) {
    if (!runs(*member)) continue;
    if (!member->connected || !member->join.captures) {
      gathering_->silent_nodes.push_back(name_of(*member));
      continue;
    }
    gathering_->parts.emplace(link, "");
    actions.emplace_back(coordinator::Say{link, request});
  }
  if (gathering_->parts.empty()) conclude(now, round, actions);
}

void HangWatch::left(TimePoint now, LinkId link, const Round& round, Actions& actions) {
  follow(round);
  if (!gathering_ || gathering_->parts.erase(link) == 0) return;
  if (const Member* member = round.find(link)) {
    gathering_->silent_nodes.push_back(name_of(*member));
  }
  if (gathering_->parts.empty()) conclude(now, round, actions);
}

void HangWatch::heard(TimePoint now, LinkId link, const link::Captured& captured,
                      const Round& round, Actions& actions) {
  follow(round);
  if (!gathering_ || captured.number != gathering_->request.number) return;
  const auto found = gathering_->parts.find(link);
  if (found == gathering_->parts.end()) return;
  if (captured.part == 0) found->second.clear();
  if (found->second.size() <= link::evidence_bytes_max) found->second += captured.bytes;
  if (captured.part + 1 < captured.parts) return;
  const Member& member = *round.find(link);
  auto read = hang::parse_evidence(found->second);
  if (read && !is_own(*read, member)) read = failure("they are about ranks of other nodes");
  if (read) {
    gathering_->evidence.push_back(std::move(*read));
  } else {
    actions.emplace_back(coordinator::Note{
        .line = fmt::format("invalid stacks from {}: {}", name_of(member), read.error().reason),
        .level = LogLevel::warning});
    gathering_->silent_nodes.push_back(name_of(member));
  }
  gathering_->parts.erase(found);
  // Progress since the request: the heartbeat that reports it may come later than this reply.
  const auto quiet = quiet_.find(link);
  const bool is_still_quiet = quiet != quiet_.end() && captured.quiet * 2 >= quiet->second.timeout;
  if (is_still_quiet) {
    quiet->second = {now - captured.quiet, quiet->second.timeout, now};
  } else {
    gathering_->is_for_hang = false;
  }
  if (gathering_->parts.empty()) conclude(now, round, actions);
}

void HangWatch::moved(LinkId from, LinkId to, const Round& round, Actions& actions) {
  follow(round);
  if (const auto found = quiet_.find(from); found != quiet_.end()) {
    quiet_.insert_or_assign(to, found->second);
    quiet_.erase(from);
  }
  if (gathering_ && gathering_->parts.erase(from) > 0) {
    gathering_->parts.emplace(to, "");
    actions.emplace_back(coordinator::Say{to, gathering_->request});
  }
}

void HangWatch::advance(TimePoint now, const Round& round, Actions& actions) {
  if (round.phase() != Round::Phase::sealed) return;
  follow(round);
  if (gathering_ && gathering_->until <= now) {
    for (const auto& [link, parts] : gathering_->parts) {
      const Member* const member = round.find(link);
      if (member != nullptr) gathering_->silent_nodes.push_back(name_of(*member));
    }
    conclude(now, round, actions);
  }
  if (told_until_ && *told_until_ <= now) {
    told_until_.reset();
    due_ = now;
  }
  if (!due_ || *due_ > now) return;
  due_.reset();
  next_look_ = now + pause_between_passes;
  std::erase_if(quiet_, [&](const auto& each) {
    const Member* const member = round.find(each.first);
    return member == nullptr || !runs(*member);
  });
  const auto all = quiet(round);
  if (!all || told_until_) return;
  const TimePoint half = all->since + all->timeout / 2;
  const TimePoint end = all->since + all->timeout;
  if (!is_noted_ && half <= now && now < end) {
    is_noted_ = true;
    actions.emplace_back(coordinator::Note{
        fmt::format("no progress from any of the {} ranks for {:.0f} s; if there is none until "
                    "{:.0f} s (--hang-timeout), cpprun captures their stacks and ends the round",
                    round.world_size(), in_seconds(now - all->since), in_seconds(all->timeout))});
  }
  if (now < end) {
    due_ = is_noted_ ? end : half;
  } else if (!gathering_) {
    begin(now, round, {}, actions);
    if (gathering_) gathering_->is_for_hang = true;
  } else {
    due_ = gathering_->until;  // an operator's
  }
}

std::optional<TimePoint> HangWatch::next_deadline(bool is_sealed) const {
  if (!is_sealed) return std::nullopt;
  std::optional<TimePoint> soonest = due_;
  if (gathering_ && (!soonest || gathering_->until < *soonest)) soonest = gathering_->until;
  if (told_until_ && (!soonest || *told_until_ < *soonest)) soonest = told_until_;
  return soonest;
}

void HangWatch::conclude(TimePoint now, const Round& round, Actions& actions) {
  Gathering gathering = *std::exchange(gathering_, std::nullopt);
  last_ = JobCapture{.number = gathering.request.number,
                     .round = round.number(),
                     .at = now,
                     .world_size = round.world_size(),
                     .is_hang = false,
                     .evidence = hang::merged(gathering.evidence),
                     .verdict = {},
                     .silent_nodes = std::move(gathering.silent_nodes)};
  last_->verdict = hang::verdict_of(last_->evidence, round.world_size());
  const auto all = quiet(round, gathering.begun);
  due_ = now + pause_between_passes;
  if (!gathering.is_for_hang || !all || now < all->since + all->timeout) {
    if (gathering.request.is_timeout) tell(*last_, std::nullopt, round, actions);
    return;
  }
  last_->is_hang = true;
  told_until_ = now + std::max(all->timeout, verdict_timeout_least);
  due_.reset();
  tell(*last_, now - all->since, round, actions);
}

void HangWatch::tell(const JobCapture& capture, std::optional<Duration> quiet, const Round& round,
                     Actions& actions) const {
  link::Verdict verdict{.round = round.number(),
                        .number = capture.number,
                        .rank = {},
                        .quiet = quiet.value_or(Duration{}),
                        .kind = std::string(name_of(capture.verdict.kind)),
                        .sentence = capture.verdict.sentence,
                        .clusters = {},
                        .is_timeout = !quiet};
  for (const hang::Cluster& each : capture.evidence.clusters) {
    if (verdict.clusters.size() == link::verdict_clusters_max) break;
    verdict.clusters.push_back(cut(hang::text_of(each)));
  }
  // The rank to blame, if its node can end it; otherwise the first rank of a node that can.
  std::vector<LinkId> told;
  for (const auto& [link, member] : round.members()) {
    const bool is_told = runs(*member) || (!quiet && member->state == Member::State::drained);
    if (!is_told || !member->connected || !member->join.captures) continue;
    const int base = member->ranks.base.value;
    const auto& blamed = capture.verdict.rank;
    const bool has_it =
        blamed && blamed->value >= base && blamed->value < base + member->join.local_world_size;
    if (told.empty() || has_it) verdict.rank = has_it ? *blamed : member->ranks.base;
    told.push_back(link);
  }
  for (const LinkId link : told) actions.emplace_back(coordinator::Say{link, verdict});
}

}  // namespace cpprun
