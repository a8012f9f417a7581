#include "rendezvous/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/machine.h"

namespace cpprun {

namespace {

std::string nodes_text(int nodes_min, int nodes_max) {
  return nodes_min == nodes_max ? fmt::format("--nnodes={}", nodes_max)
                                : fmt::format("--nnodes={}:{}", nodes_min, nodes_max);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

Job::Job(JobTerms terms, JobOptions options)
    : terms_(std::move(terms)), options_(options), leases_(options.lease) {}

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
  if (!status_due_) status_due_ = now + options_.status_interval;
  seal_if_complete(now, actions);
}

// A sentence when this node cannot have a seat; it names both sides, so that whoever reads it on
// one machine knows what to change on which.
std::optional<std::string> Job::objection(const link::Join& join) const {
  if (finish_) return fmt::format("job \"{}\" is over: {}", terms_.id, finish_->reason);
  if (join.nodes_min != terms_.nodes_min || join.nodes_max != terms_.nodes_max) {
    return fmt::format("this job runs with {}, but {} came with {}; start every node with the same",
                       nodes_text(terms_.nodes_min, terms_.nodes_max), join.host,
                       nodes_text(join.nodes_min, join.nodes_max));
  }
  if (join.restarts_max != terms_.restarts_max) {
    return fmt::format(
        "this job runs with --max-restarts={}, but {} came with --max-restarts={}; the budget is "
        "the job's, start every node with the same",
        terms_.restarts_max, join.host, join.restarts_max);
  }
  if (join.node_rank && (*join.node_rank < 0 || *join.node_rank >= terms_.nodes_max)) {
    return fmt::format("--node_rank={} on {} is outside 0…{} of {}", *join.node_rank, join.host,
                       terms_.nodes_max - 1, nodes_text(terms_.nodes_min, terms_.nodes_max));
  }
  if (join.node_rank) {
    if (const Member* holder = round_.holder_of(*join.node_rank)) {
      return fmt::format(
          "node rank {} is taken by {} (pid {}); {} (pid {}) asked for it too: give each node its "
          "own --node_rank, from 0 to {}",
          *join.node_rank, holder->join.host, holder->join.pid, join.host, join.pid,
          terms_.nodes_max - 1);
    }
  }
  if (round_.size() >= static_cast<std::size_t>(terms_.nodes_max)) {
    return fmt::format("all {} seats of job \"{}\" are taken", terms_.nodes_max, terms_.id);
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
    actions.emplace_back(keeper::Say{caller.link, link::Drain{round_.number(), drain_reason_}});
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
  root_ = failed.failure;
  break_round(fmt::format("rank {} on {} failed", failed.failure.rank.value, failed.failure.host),
              actions);
}

void Job::leave(TimePoint now, LinkId link, const link::Leave& leave, keeper::Actions& actions) {
  const Member member = *round_.find(link);
  if (round_.phase() != Round::Phase::gathering) {
    if (!stop_) stop_ = leave;
    if (round_.phase() == Round::Phase::sealed) {
      break_round(fmt::format("{} leaves: {}", name_of(member), leave.reason), actions);
    }
    settle(now, actions);
    return;
  }
  if (member.local) {
    // Without its master a job that never began cannot begin.
    stop_ = leave;
    end({.exit_code = leave.signal == 0 ? 1 : 128 + leave.signal,
         .reason = fmt::format("the master on {} left: {}", member.join.host, leave.reason)},
        actions);
    return;
  }
  actions.emplace_back(keeper::Note{fmt::format("{} left: {}", name_of(member), leave.reason)});
  leases_.forget(link);
  round_.leave(link);
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
  round_.leave(link);
  if (round_.phase() == Round::Phase::sealed && member.state == Member::State::running) {
    root_ = link::Failure{
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
}

void Job::seal_if_complete(TimePoint now, keeper::Actions& actions) {
  if (over() || round_.phase() != Round::Phase::gathering) return;
  if (round_.size() < static_cast<std::size_t>(terms_.nodes_max)) return;
  auto seats = round_.seal();
  admitted_.clear();
  for (const auto& [link, member] : round_.members()) {
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
  status_due_.reset();
}

void Job::break_round(const std::string& reason, keeper::Actions& actions) {
  drain_reason_ = reason;
  round_.break_up();
  for (const auto& [link, member] : round_.members()) {
    if (member.connected) {
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
  if (round_.count(Member::State::drained) < round_.size()) {
    if (!status_due_) status_due_ = now + options_.status_interval;
    return;
  }
  const bool may_restart = !stop_ && root_ && restarts_used_ < terms_.restarts_max;
  if (!may_restart) {
    const int stop_code = stop_ && stop_->signal != 0 ? 128 + stop_->signal : 1;
    const int code = root_ ? link::exit_code_of(root_->status) : stop_code;
    end({.exit_code = code, .reason = drain_reason_, .root = root_}, actions);
    return;
  }
  ++restarts_used_;
  actions.emplace_back(keeper::Note{
      fmt::format("{}: restart {} of {}", drain_reason_, restarts_used_, terms_.restarts_max)});
  root_.reset();
  round_.gather_again();
  status_due_ = now + options_.status_interval;
  seal_if_complete(now, actions);
}

void Job::end(link::Finish finish, keeper::Actions& actions) {
  finish_ = std::move(finish);
  status_due_.reset();
  for (const auto& [link, member] : round_.members()) {
    if (member.connected) actions.emplace_back(keeper::Say{link, *finish_});
  }
}

void Job::advance(TimePoint now, keeper::Actions& actions) {
  for (const LinkId link : leases_.expire(now)) lose(now, link, actions);
  if (status_due_ && *status_due_ <= now) tell_status(now, actions);
}

void Job::tell_status(TimePoint now, keeper::Actions& actions) {
  status_due_ = now + options_.status_interval;
  const bool gathering = round_.phase() == Round::Phase::gathering;
  const std::string reason =
      gathering ? round_.who_is_missing(terms_.nodes_max)
                : fmt::format("{}; waiting for {} to end the workers", drain_reason_,
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
  const std::optional<TimePoint> expiry = leases_.next_expiry();
  if (!expiry) return status_due_;
  return status_due_ ? std::min(*expiry, *status_due_) : *expiry;
}

}  // namespace cpprun
