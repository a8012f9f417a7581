// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/time_accounting.h"

#include <algorithm>
#include <utility>

#include "proto/link/bounds.h"

namespace cpprun {

namespace {

NodeDuration whole(Duration time) {
  return std::chrono::floor<NodeDuration>(time);
}

NodeDuration reading(TimePoint now) {
  return whole(now.time_since_epoch());
}

constexpr std::size_t index(Account account) {
  return static_cast<std::size_t>(account);
}

}  // namespace

void TimeAccounting::book(TimePoint now) {
  const NodeDuration passed = reading(now) - now_.until.value_or(reading(now));
  if (passed < NodeDuration{}) return;
  now_.until = reading(now);
  for (std::size_t i = 0; i < account_count; ++i) {
    if (now_.nodes[i] == 0) continue;
    const NodeDuration time = passed * static_cast<NodeDuration::rep>(now_.nodes[i]);
    const auto account = static_cast<Account>(i);
    if (account == Account::training) now_.round_training += time;
    if (account == Account::starting) now_.round_starting += time;
    if (account == Account::training || account == Account::standing_by) {
      now_.kept[i] += time;
    } else if (now_.broken) {
      (*now_.broken)[i] += time;
    } else {
      now_.lost[now_.current].time[i] += time;
    }
  }
}

void TimeAccounting::place(TimePoint now, const Nodes& nodes) {
  if (nodes == now_.nodes) return;
  if (!now_.began) now_.began = reading(now);
  book(now);
  now_.nodes = nodes;
}

void TimeAccounting::place(TimePoint now, const Round& round, Account waits) {
  using State = Member::State;
  Nodes nodes{};
  const auto put = [&nodes](Account account, std::size_t count) { nodes[index(account)] += count; };
  switch (round.phase()) {
    case Round::Phase::gathering:
      put(waits, round.size());
      break;
    case Round::Phase::sealed:
      put(training() ? Account::training : Account::starting, round.count(State::running));
      put(Account::standing_by, round.count(State::waiting) + round.count(State::succeeded));
      break;
    case Round::Phase::draining:
      put(Account::draining, round.seated());
      put(Account::standing_by, round.count(State::waiting));
      break;
  }
  place(now, nodes);
}

void TimeAccounting::sealed(TimePoint now) {
  book(now);
  stalled_since_.reset();
  now_.round_training = {};
  now_.round_starting = {};
  now_.unsaved.clear();
  now_.trains = false;
}

void TimeAccounting::unsaved(Duration time) {
  now_.unsaved.push_back(whole(time));
}

void TimeAccounting::broken(TimePoint now) {
  book(now);
  now_.broken.emplace();
  now_.nodes_at_break = now_.nodes[index(Account::training)] + now_.nodes[index(Account::starting)];
}

// Takes back at most that much of what the round has booked to that account.
NodeDuration TimeAccounting::take(Account from, NodeDuration most) {
  const bool is_training = from == Account::training;
  NodeDuration& of_round = is_training ? now_.round_training : now_.round_starting;
  NodeDuration& booked = is_training ? of(now_.kept, from) : of(now_.lost[now_.current].time, from);
  const NodeDuration taken = std::clamp(most, NodeDuration{}, std::min(of_round, booked));
  of_round -= taken;
  booked -= taken;
  return taken;
}

void TimeAccounting::round_decided(TimePoint now, const Cause& cause) {
  book(now);
  NodeTime time = std::exchange(now_.broken, std::nullopt).value_or(NodeTime{});
  // What ran before the failure was reported was not training, whatever it looked like.
  const NodeDuration unnoticed = whole(cause.unnoticed);
  const NodeDuration in_vain = unnoticed * static_cast<NodeDuration::rep>(now_.nodes_at_break);
  const NodeDuration found = take(Account::training, in_vain);
  of(time, Account::detecting) += found + take(Account::starting, in_vain - found);
  for (const NodeDuration unsaved : now_.unsaved) {
    if (!cause.failed) break;
    // The last part is booked already, as the time until the failure was noticed.
    of(time, Account::redoing) += take(Account::training, unsaved - unnoticed);
  }
  now_.unsaved.clear();
  LostTime& lost = entry(cause.id, cause.host);
  for (std::size_t i = 0; i < account_count; ++i) lost.time[i] += time[i];
  now_.current = static_cast<std::size_t>(&lost - now_.lost.data());
}

void TimeAccounting::round_decided(TimePoint now, const RoundEnd& round_end,
                                   bool has_lost_its_store) {
  if (round_end.reached != link::Reached{}) has_worked(now);
  const Failures::Entry* root = round_end.failures.root();
  const bool is_in_vain = stalled_since_ && (has_lost_its_store || !has_resumed_);
  const Duration stalled =
      is_in_vain ? std::max(round_end.at - *stalled_since_, Duration{}) : Duration{};
  if (root == nullptr) {
    const char* const known = is_in_vain ? "coordinator_lost" : "membership_change";
    const char* const other = has_lost_its_store ? "store_lost" : known;
    const char* const change = round_end.ordered ? "order" : other;
    const char* const why = round_end.stop ? "stopped" : change;
    return round_decided(now, {.id = why, .unnoticed = stalled, .failed = false});
  }
  const std::string& cause = root->failure.cause;
  round_decided(now, {.id = cause.empty() ? "unknown" : cause,
                      .host = root->failure.host,
                      .unnoticed = std::max({round_end.at - root->at, stalled, Duration{}})});
}

LostTime& TimeAccounting::entry(const std::string& id, const std::string& host) {
  const auto of_id = [this](const std::string& wanted) {
    return std::ranges::find(now_.lost, wanted, &LostTime::cause);
  };
  auto found = of_id(id);
  // Agents report the cause: they must not make us keep more names than there are causes.
  const bool is_full = now_.lost.size() >= bounds::causes_counted_max;
  if (found == now_.lost.end() && is_full) found = of_id("other");
  if (found == now_.lost.end()) {
    now_.lost.push_back({.cause = is_full ? "other" : id, .host = host});
    found = std::prev(now_.lost.end());
  }
  if (found->host != host) found->host.clear();
  ++found->count;
  return *found;
}

void TimeAccounting::has_worked(TimePoint now) {
  book(now);
  if (now_.trains) return;
  const NodeDuration unheard = take(Account::starting, now_.round_starting);
  of(now_.kept, Account::training) += unheard;
  now_.round_training += unheard;
}

TimeUse TimeAccounting::told(TimePoint now) const {
  TimeAccounting until_now = *this;
  until_now.book(now);
  const bool any_node =
      std::ranges::any_of(now_.nodes, [](std::size_t count) { return count > 0; });
  const NodeDuration until = any_node ? *until_now.now_.until : now_.until.value_or(NodeDuration{});
  TimeUse use{.wall = now_.began ? until - *now_.began : NodeDuration{},
              .nodes = until_now.now_.kept};
  for (const LostTime& each : until_now.now_.lost) {
    for (std::size_t i = 0; i < account_count; ++i) use.nodes[i] += each.time[i];
    if (each.count > 0 || sum_of(each.time) > NodeDuration{}) use.lost.push_back(each);
  }
  if (until_now.now_.broken) {
    for (std::size_t i = 0; i < account_count; ++i) use.nodes[i] += (*until_now.now_.broken)[i];
  }
  return use;
}

std::optional<std::string> TimeAccounting::check() const {
  const auto is_negative = [](NodeDuration time) { return time < NodeDuration{}; };
  if (std::ranges::any_of(now_.kept, is_negative)) return "an account has negative time";
  for (const LostTime& each : now_.lost) {
    if (std::ranges::any_of(each.time, is_negative)) return "a cause has negative time";
  }
  return std::nullopt;
}

}  // namespace cpprun
