#include "rendezvous/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/machine.h"

namespace cpprun {

namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

Job::Job(JobTerms terms, JobOptions options)
    : terms_(std::move(terms)),
      options_(options),
      leases_(options.lease),
      last_call_({.min = static_cast<std::size_t>(terms_.nodes_min),
                  .max = static_cast<std::size_t>(terms_.nodes_max)},
                 options.last_call) {}

Result<void> Job::admit(const std::string& peer) const {
  if (round_.phase() != Round::Phase::sealed || over()) {
    return failure("no round is running");
  }
  if (is_loopback(peer) || admitted_.contains(peer)) return {};
  return failure("no node of this job has that address");
}

void Job::join(TimePoint now, const Caller& caller, const link::Join& join,
               keeper::Actions& actions) {
  if (join.after == round_.number() && join.after != RoundNumber{}) {
    if (const auto old_link = round_.find_agent(join.host, join.pid)) {
      resume(now, *old_link, caller, actions);
      return;
    }
  }
  if (const auto reason = objection(join)) {
    actions.emplace_back(keeper::Say{caller.link, link::Refused{*reason}});
    actions.emplace_back(keeper::HangUp{caller.link, *reason});
    actions.emplace_back(keeper::Note{
        fmt::format("refused the node on {} ({}): {}", join.host, caller.peer, *reason)});
    return;
  }
  round_.enter(caller.link, {.join = join, .peer = caller.peer, .local = caller.local});
  if (!caller.local) leases_.renew(caller.link, now);
  switch (round_.phase()) {
    case Round::Phase::gathering:
      if (!status_due_) status_due_ = now + options_.status_interval;
      consider_sealing(now, actions);
      break;
    case Round::Phase::sealed:
      consider_growing(now, caller.link, actions);
      break;
    case Round::Phase::draining:
      break;  // It is there when the round gathers again.
  }
}

// A sentence when this node cannot have a seat.
std::optional<std::string> Job::objection(const link::Join& join) const {
  if (finish_) return fmt::format("job \"{}\" is over: {}", terms_.id, finish_->reason);
  if (auto reason = disagreement(terms_, join)) return reason;
  if (join.node_rank) {
    if (const Member* holder = round_.holder_of(*join.node_rank)) {
      return fmt::format(
          "node rank {} is taken by {} (pid {}); {} (pid {}) asked for it too: give each node its "
          "own --node_rank, from 0 to {}",
          *join.node_rank, holder->join.host, holder->join.pid, join.host, join.pid,
          terms_.nodes_max - 1);
    }
  }
  return std::nullopt;
}

// The agent's link broke and it is back in time: its workers never noticed.
void Job::resume(TimePoint now, LinkId old_link, const Caller& caller, keeper::Actions& actions) {
  if (round_.find(old_link)->connected) {
    actions.emplace_back(keeper::HangUp{old_link, "its agent speaks through a newer link"});
  }
  leases_.move(old_link, caller.link);
  round_.move(old_link, caller.link);
  round_.set_connected(caller.link, true);
  leases_.renew(caller.link, now);
  actions.emplace_back(
      keeper::Note{fmt::format("the link of {} is back", name_of(*round_.find(caller.link)))});
  if (finish_) {
    actions.emplace_back(keeper::Say{caller.link, *finish_});
  } else if (round_.phase() == Round::Phase::draining) {
    actions.emplace_back(keeper::Say{caller.link, link::Drain{round_.number(), breakup_.reason}});
  }
}

void Job::hear(TimePoint now, LinkId link, const link::Message& message, keeper::Actions& actions) {
  const Member* member = round_.find(link);
  if (member == nullptr) {
    // A late word of an agent that was refused or lost; it has been told, or is being cut off.
    return;
  }
  if (!member->local) leases_.renew(link, now);
  const auto is_current = [this](RoundNumber round) { return round == round_.number(); };
  std::visit(
      Overloaded{
          [&](const link::Failed& m) {
            if (is_current(m.round)) failed(m, actions);
          },
          [&](const link::Succeeded& m) {
            if (!is_current(m.round) || member->state != Member::State::running) return;
            round_.set_state(link, Member::State::succeeded);
            settle(now, actions);
          },
          [&](const link::Drained& m) {
            // In any other phase it is a late word: nobody has asked for it.
            if (!is_current(m.round) || round_.phase() != Round::Phase::draining) return;
            round_.set_state(link, Member::State::drained);
            if (member->leaving) {
              leases_.forget(link);
              round_.leave(link);
            }
            settle(now, actions);
          },
          [&](const link::Leave& m) { leave(now, link, m, actions); },
          [&](const link::Heartbeat&) {
            actions.emplace_back(keeper::Say{link, link::Heartbeat{}});
          },
          [&](const auto&) {
            // A second Join, or a keeper's own words: this peer does not follow the protocol.
            actions.emplace_back(keeper::HangUp{link, "it said what an agent does not say here"});
          },
      },
      message);
}

void Job::failed(const link::Failed& failed, keeper::Actions& actions) {
  if (round_.phase() != Round::Phase::sealed) return;  // A consequence: the round breaks already.
  breakup_.root = failed.failure;
  break_round(fmt::format("rank {} on {} failed", failed.failure.rank.value, failed.failure.host),
              actions);
}

void Job::leave(TimePoint now, LinkId link, const link::Leave& leave, keeper::Actions& actions) {
  const Member member = *round_.find(link);
  const std::string says = fmt::format("{} leaves: {}", name_of(member), leave.reason);
  const bool has_seat = member.state != Member::State::waiting;
  if (!has_seat && !member.local) {
    // Nothing of it is alive, and nobody needs it.
    actions.emplace_back(keeper::Note{says});
    leases_.forget(link);
    round_.leave(link);
    consider_sealing(now, actions);
    return;
  }
  if (round_.phase() == Round::Phase::gathering) {
    // Without its master a job that never began cannot begin.
    end({.exit_code = leave.signal == 0 ? 1 : 128 + leave.signal,
         .reason = fmt::format("the master on {} left: {}", member.join.host, leave.reason)},
        actions);
    return;
  }
  if (goes_on_without(member)) {
    breakup_.change = true;
    round_.mark_leaving(link);
  } else if (!breakup_.stop) {
    breakup_.stop = leave;
  }
  if (round_.phase() == Round::Phase::sealed) break_round(says, actions);
  settle(now, actions);
}

// Elastic, and enough are left; but nobody goes on without the keeper's own host.
bool Job::goes_on_without(const Member& member) const {
  return terms_.elastic() && !member.local &&
         round_.size() > static_cast<std::size_t>(terms_.nodes_min);
}

void Job::close(TimePoint now, LinkId link, const std::string& reason, keeper::Actions& actions) {
  const Member* member = round_.find(link);
  if (member == nullptr) return;
  const bool has_workers =
      member->state == Member::State::running || member->state == Member::State::succeeded;
  if (over() || !has_workers) {
    // Nothing of it is alive: its seat is free at once.
    if (!over()) {
      actions.emplace_back(
          keeper::Note{fmt::format("{} is gone while waiting: {}", name_of(*member), reason)});
    }
    leases_.forget(link);
    round_.leave(link);
    settle(now, actions);
    consider_sealing(now, actions);
    return;
  }
  round_.set_connected(link, false);
  actions.emplace_back(keeper::Note{
      fmt::format("the link of {} broke: {}; it has {} s to come back", name_of(*member), reason,
                  std::chrono::duration<double>(options_.lease).count())});
}

// The lease ran out. Its agent ends its workers by itself when it notices the same; from here on
// nothing it says counts.
void Job::lose(TimePoint now, LinkId link, keeper::Actions& actions) {
  const Member member = *round_.find(link);
  const double silence = std::chrono::duration<double>(options_.lease).count();
  actions.emplace_back(
      keeper::Note{fmt::format("{} is lost: silent for {} s", name_of(member), silence)});
  if (member.connected) {
    actions.emplace_back(keeper::HangUp{link, fmt::format("silent for {} s", silence)});
  }
  const bool replaceable =
      terms_.elastic() || terms_.restarts_max > 0 || round_.count(Member::State::waiting) > 0;
  round_.leave(link);
  if (round_.phase() == Round::Phase::sealed && member.state == Member::State::running) {
    // Who is lost is a change and not a failure, as long as anybody may take the place. A job that
    // is not to be restarted has nothing to wait for.
    breakup_.change = replaceable;
    breakup_.root = link::Failure{
        .rank = member.ranks.base,
        .group_rank = member.group_rank.value_or(GroupRank{}),
        .host = member.join.host,
        .pid = member.join.pid,
        .status = {.signalled = false, .value = 1},
        .message = fmt::format("{} ({}) is lost: nothing was heard of it for {} s; the machine, "
                               "its network or its cpprun is down",
                               name_of(member), member.peer, silence)};
    break_round(fmt::format("{} is lost", name_of(member)), actions);
  }
  settle(now, actions);
  consider_sealing(now, actions);
}

// Gathering: everybody is here, or enough are and the last call is over.
void Job::consider_sealing(TimePoint now, keeper::Actions& actions) {
  if (over() || round_.phase() != Round::Phase::gathering) return;
  if (last_call_.may_seal(now, round_.size())) seal(now, actions);
}

// Sealed: somebody came who has no seat. There may be one for it: then the round is broken
// politely, once for all who come until the last call is over.
void Job::consider_growing(TimePoint now, std::optional<LinkId> newcomer,
                           keeper::Actions& actions) {
  if (over() || round_.phase() != Round::Phase::sealed) return;
  const std::size_t spares = round_.count(Member::State::waiting);
  const bool was_called = last_call_.over_at().has_value();
  const bool grows = last_call_.may_grow(now, round_.seated(), spares);
  // Whoever was a spare before knows it: a thousand of them must not hear of each one more.
  if (!last_call_.over_at()) tell_spares(was_called ? std::nullopt : newcomer, actions);
  if (!grows) return;
  breakup_.change = true;
  break_round(fmt::format("{} more {} here", spares, spares == 1 ? "node is" : "nodes are"),
              actions);
}

void Job::seal(TimePoint now, keeper::Actions& actions) {
  last_call_.cancel();
  status_due_.reset();
  auto seats = round_.seal(terms_.nodes_max);
  admitted_.clear();
  for (const auto& [link, member] : round_.members()) {
    if (member.state == Member::State::waiting) continue;
    admitted_.insert(member.peer);
    admitted_.insert(member.join.addresses.begin(), member.join.addresses.end());
  }
  actions.emplace_back(
      keeper::ResetStore{terms_.id, fmt::format("round {} begins", round_.number().value)});
  for (auto& [link, sealed] : seats) {
    sealed.restart_count = restarts_used_;
    sealed.store_port = options_.store_port;
    if (!round_.find(link)->local) leases_.renew(link, now);
    actions.emplace_back(keeper::Say{link, sealed});
  }
  tell_spares({}, actions);
}

void Job::tell_spares(std::optional<LinkId> only, keeper::Actions& actions) {
  const link::Waiting waiting{
      .reason = fmt::format("all {} seats are taken; this node is a spare", terms_.nodes_max),
      .spare = true};
  if (only) {
    actions.emplace_back(keeper::Say{*only, waiting});
    return;
  }
  for (const auto& [link, member] : round_.members()) {
    if (member.state != Member::State::waiting || !member.connected) continue;
    actions.emplace_back(keeper::Say{link, waiting});
  }
}

void Job::break_round(const std::string& reason, keeper::Actions& actions) {
  breakup_.reason = reason;
  last_call_.cancel();
  round_.break_up();
  for (const auto& [link, member] : round_.members()) {
    if (member.connected && member.state != Member::State::waiting) {
      actions.emplace_back(keeper::Say{link, link::Drain{round_.number(), reason}});
    }
  }
}

// Something changed: is the round at its end, and what follows?
void Job::settle(TimePoint now, keeper::Actions& actions) {
  if (over()) return;
  const bool nobody_runs = round_.count(Member::State::running) == 0;
  if (round_.phase() == Round::Phase::sealed && nobody_runs) {
    end({.exit_code = 0, .reason = "every worker finished"}, actions);
    return;
  }
  if (round_.phase() != Round::Phase::draining) return;
  if (round_.count(Member::State::drained) < round_.seated()) {
    if (!status_due_) status_due_ = now + options_.status_interval;
    return;
  }
  const bool may_restart = breakup_.change || restarts_used_ < terms_.restarts_max;
  if (!breakup_.stop && may_restart) {
    begin_again(now, actions);
    return;
  }
  end(finish_of(breakup_), actions);
}

// Nobody of the old round is left: its members wait for the next one.
void Job::begin_again(TimePoint now, keeper::Actions& actions) {
  if (breakup_.change) {
    actions.emplace_back(keeper::Note{fmt::format("{}: the next round follows", breakup_.reason)});
  } else {
    ++restarts_used_;
    actions.emplace_back(keeper::Note{
        fmt::format("{}: restart {} of {}", breakup_.reason, restarts_used_, terms_.restarts_max)});
  }
  breakup_ = {};
  round_.gather_again();
  status_due_ = now + options_.status_interval;
  // Those who were here before need no last call: they have just met.
  if (terms_.elastic() && round_.size() >= static_cast<std::size_t>(terms_.nodes_min)) {
    seal(now, actions);
  } else {
    consider_sealing(now, actions);
  }
}

void Job::end(link::Finish finish, keeper::Actions& actions) {
  finish_ = std::move(finish);
  status_due_.reset();
  last_call_.cancel();
  for (const auto& [link, member] : round_.members()) {
    if (member.connected) actions.emplace_back(keeper::Say{link, *finish_});
  }
}

void Job::advance(TimePoint now, keeper::Actions& actions) {
  for (const LinkId link : leases_.expire(now)) lose(now, link, actions);
  if (last_call_.over_at() && *last_call_.over_at() <= now) {
    consider_sealing(now, actions);
    consider_growing(now, {}, actions);
  }
  if (status_due_ && *status_due_ <= now) tell_status(now, actions);
}

void Job::tell_status(TimePoint now, keeper::Actions& actions) {
  status_due_ = now + options_.status_interval;
  const bool gathering = round_.phase() == Round::Phase::gathering;
  const std::string reason =
      gathering ? round_.who_is_missing(terms_.nodes_max)
                : fmt::format("{}; waiting for {} to end the workers", breakup_.reason,
                              round_.who_is(Member::State::running) +
                                  round_.who_is(Member::State::succeeded));
  const auto audience = gathering ? Member::State::waiting : Member::State::drained;
  for (const auto& [link, member] : round_.members()) {
    if (member.state == audience && member.connected) {
      actions.emplace_back(keeper::Say{link, link::Waiting{reason}});
    }
  }
}

std::optional<TimePoint> Job::next_deadline() const {
  std::optional<TimePoint> soonest = leases_.next_expiry();
  for (const auto& deadline : {status_due_, last_call_.over_at()}) {
    if (deadline && (!soonest || *deadline < *soonest)) soonest = deadline;
  }
  return soonest;
}

}  // namespace cpprun
