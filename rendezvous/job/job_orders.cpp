// SPDX-License-Identifier: BSD-3-Clause
// The part of Job that executes an operator's orders. Each is executed at once, or rejected with a
// sentence that includes a hint. None is queued.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include "proto/signal_names.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/job_texts.h"
#include "rendezvous/job/job_time.h"

namespace cpprun {

namespace {

using Kind = OrderOutcome::Kind;
using State = Member::State;

std::string node_count_text(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "node" : "nodes");
}

bool speaks_from_host(const Member& member, const std::string& host) {
  return is_host_of(host, member.join, member.peer) ||
         std::ranges::find(member.further_peers, host) != member.further_peers.end();
}

bool has_a_seat(const Member& member) {
  return member.state == State::running || member.state == State::succeeded;
}

}  // namespace

OrderOutcome Job::order(TimePoint now, const Order& order, coordinator::Actions& actions) {
  const TimeKept kept{*this, now};
  if (steps_ > 0) ++steps_;
  if (leads_until_ && *leads_until_ <= now) look_at_lead(now, actions);
  if (is_deposed_) {
    return {Kind::not_now, "this coordinator is cut off from its job, which may be led elsewhere"};
  }
  if (transfer_until_) {
    return {Kind::not_now, "leadership of this job is being transferred: ask again in a moment"};
  }
  if (over()) {
    return {Kind::not_now, fmt::format("job \"{}\" is over: {}", terms_.id, finish_->reason)};
  }
  switch (order.kind) {
    case Order::Kind::stop:
      return stop(now, order, actions);
    case Order::Kind::restart:
      return restart(now, order, actions);
    case Order::Kind::save:
      return save(now, order, actions);
    case Order::Kind::drain:
      return drain(now, order, actions);
    case Order::Kind::exclude:
      return exclude(now, order, actions);
    case Order::Kind::include:
      return include(now, order, actions);
    case Order::Kind::forget:
    case Order::Kind::handover:  // not for a job but for its coordinator
      break;
  }
  return {Kind::not_now, fmt::format("job \"{}\" is not over: stop it first", terms_.id)};
}

OrderOutcome Job::stop(TimePoint now, const Order& order, coordinator::Actions& actions) {
  if (round_end_.stop) {
    return {Kind::not_now, fmt::format("job \"{}\" is being ended already: {}", terms_.id,
                                       round_end_.why_no_other)};
  }
  const std::string says = told_by(order, "stopped the job");
  if (round_.phase() == Round::Phase::gathering) {
    end({.exit_code = 128 + SIGTERM, .reason = says}, now, actions);
    return {Kind::done, fmt::format("job \"{}\" is over; no worker ran", terms_.id)};
  }
  round_end_.stop = link::Leave{.signal = SIGTERM, .reason = says};
  round_end_.why_no_other = says;
  if (round_.phase() == Round::Phase::sealed) {
    break_round(now, says, actions);
  } else {
    if (round_end_.failures.empty()) round_end_.reason = says;
    recall_votes(actions);
  }
  round_end_.polite_since(now, says);
  const std::size_t nodes = round_.seated();
  settle(now, actions);
  return {Kind::done, fmt::format("job \"{}\" ends: {} {} to end the workers", terms_.id,
                                  node_count_text(nodes), nodes == 1 ? "was told" : "were told")};
}

// Polite, as for a newcomer: nothing has failed, so no restart is used.
OrderOutcome Job::restart(TimePoint now, const Order& order, coordinator::Actions& actions) {
  if (round_.phase() == Round::Phase::draining) {
    return {Kind::not_now, fmt::format("round {} is being ended already: {}", round_.number().value,
                                       round_end_.reason)};
  }
  if (round_.phase() == Round::Phase::gathering) {
    return {Kind::not_now, "no round runs that could be begun again: " + waits_for(now)};
  }
  round_end_.change = round_end_.ordered = true;
  break_round(now, told_by(order, "restarted the job"), actions);
  settle(now, actions);
  return {Kind::done, fmt::format("round {} is being ended, and the next one follows; that costs "
                                  "no restart",
                                  round_.number().value)};
}

OrderOutcome Job::save(TimePoint now, const Order& order, coordinator::Actions& actions) {
  if (const auto objection = objection_to_signal(order.signal)) {
    return {Kind::malformed, *objection};
  }
  if (round_.phase() != Round::Phase::sealed) {
    return {Kind::not_now, "no workers run that could save: " + waits_for(now)};
  }
  // A node with an inaccurate clock offset signals a little later than the others, and keeps only
  // one order.
  if (const auto next = saves_at_.value_or(now) + bounds::save_lead; saves_at_ && now < next) {
    return {Kind::not_now, fmt::format("the workers were asked to save a moment ago: ask again in "
                                       "{:.1f} s",
                                       in_seconds(next - now))};
  }
  // If some ranks miss a save, the others wait for them or the checkpoint is incomplete.
  if (round_.away() > 0) {
    return {Kind::not_now,
            fmt::format("the link of {} is broken, and all ranks have to hear of it: "
                        "ask again when it is back",
                        round_.who_is_away())};
  }
  saves_at_ = now + bounds::save_lead;
  int workers = 0;
  for (const auto& [link, member] : round_.members()) {
    if (member->state != State::running) continue;
    // The agent in the coordinator's own process shares its clock.
    const auto by_own = std::chrono::duration_cast<link::AgentTime>(saves_at_->time_since_epoch());
    const auto at =
        member->local ? by_own : member->clock.by_agent(*saves_at_).value_or(link::AgentTime{});
    actions.emplace_back(coordinator::Say{link, link::Save{round_.number(), order.signal, at}});
    workers += member->join.local_world_size;
  }
  return {Kind::done,
          fmt::format("{} goes to the {} of round {} in {} s", signal_name(order.signal),
                      workers == 1 ? "worker" : fmt::format("{} workers", workers),
                      round_.number().value, in_seconds(bounds::save_lead))};
}

void Job::noticed(TimePoint now, const Member& member, const std::string& notice,
                  coordinator::Actions& actions) {
  const std::string what = fmt::format("preemption notice of {} ({})", name_of(member), notice);
  const Order order{.kind = Order::Kind::save, .signal = SIGUSR1, .reason = notice};
  const auto outcome = save(now, order, actions);
  actions.emplace_back(coordinator::Note{
      fmt::format("{}: {}{}", what, outcome.is_done() ? "" : "no save: ", outcome.sentence)});
}

// --- nodes that have to leave
// ---------------------------------------------------------------------

OrderOutcome Job::drain(TimePoint now, const Order& order, coordinator::Actions& actions) {
  const auto links = nodes_called(order.whom);
  if (links.empty()) {
    return {Kind::unknown,
            fmt::format("no node of job \"{}\" has the rank, the name or the address \"{}\"; here "
                        "are {}",
                        terms_.id, order.whom, round_.who_is_here())};
  }
  if (auto objection = objection_to_dismiss(links)) return *std::move(objection);
  const std::string who = name_of(*round_.find(links.front()));
  const std::string whom =
      links.size() == 1 ? who : fmt::format("{} of {}", node_count_text(links.size()), order.whom);
  dismiss(now, links, told_by(order, "drained " + whom), actions);
  return {Kind::done,
          fmt::format("{} {} job \"{}\"", whom, links.size() == 1 ? "leaves" : "leave", terms_.id)};
}

std::optional<OrderOutcome> Job::objection_to_exclude(const std::string& host) const {
  if (over()) return std::nullopt;
  const auto links = nodes_of_host(host);
  return links.empty() ? std::nullopt : objection_to_dismiss(links);
}

OrderOutcome Job::exclude(TimePoint now, const Order& order, coordinator::Actions& actions) {
  if (auto objection = objection_to_exclude(order.whom)) return *std::move(objection);
  const auto until = order.length > Duration{} ? std::optional(now + order.length) : std::nullopt;
  const std::string why = told_by(order, "excluded " + order.whom);
  if (const auto done = exclusions_.exclude(now, order.whom, until, why); !done) {
    return {Kind::not_now, done.error().reason};
  }
  const auto links = nodes_of_host(order.whom);
  if (!links.empty()) dismiss(now, links, why, actions);
  const std::string length = until ? fmt::format("for {} s", in_seconds(order.length))
                                   : std::string("until the job is over");
  const std::string who = links.empty() ? "no node of it is here"
                                        : fmt::format("{} of it {}", node_count_text(links.size()),
                                                      links.size() == 1 ? "leaves" : "leave");
  return {Kind::done,
          fmt::format("{} is excluded from job \"{}\" {}; {}", order.whom, terms_.id, length, who)};
}

OrderOutcome Job::include(TimePoint now, const Order& order, coordinator::Actions&) {
  if (exclusions_.include(now, order.whom)) {
    return {Kind::done,
            fmt::format("nodes of {} may take a seat in job \"{}\" again", order.whom, terms_.id)};
  }
  const std::string others = exclusions_.list(now);
  return {Kind::unknown,
          fmt::format("{} is not excluded from job \"{}\"{}", order.whom, terms_.id,
                      others.empty() ? std::string("; no host is") : "; these are: " + others)};
}

std::vector<LinkId> Job::nodes_of_host(const std::string& host) const {
  std::vector<LinkId> links;
  for (const auto& [link, member] : round_.members()) {
    if (speaks_from_host(*member, host)) links.push_back(link);
  }
  return links;
}

// A number is a node's rank, if a node has that rank.
std::vector<LinkId> Job::nodes_called(const std::string& whom) const {
  int rank = -1;
  const char* const end = whom.data() + whom.size();
  const auto [rest, error] = std::from_chars(whom.data(), end, rank);
  if (error == std::errc{} && rest == end) {
    for (const auto& [link, member] : round_.members()) {
      if (member->group_rank == GroupRank{rank}) return {link};
    }
  }
  return nodes_of_host(whom);
}

std::optional<OrderOutcome> Job::objection_to_dismiss(const std::vector<LinkId>& links) const {
  if (round_end_.stop) {
    return OrderOutcome{Kind::not_now, fmt::format("job \"{}\" is being ended already: {}",
                                                   terms_.id, round_end_.why_no_other)};
  }
  std::size_t leave = 0;
  bool is_needed = false;
  for (const LinkId link : links) {
    const Member& member = *round_.find(link);
    if (member.local) {
      return OrderOutcome{
          Kind::not_now,
          fmt::format("{} hosts the coordinator and cannot be drained or excluded: "
                      "{}",
                      name_of(member),
                      standby_place() ? "to let it leave, send SIGTERM to its cpprun, which "
                                        "transfers leadership to the standby"
                                      : "stop the job instead")};
    }
    if (member.leaving) continue;
    ++leave;
    is_needed = is_needed || member.group_rank;
  }
  if (leave == 0) {
    return OrderOutcome{Kind::not_now,
                        fmt::format("{} leaves already", name_of(*round_.find(links.front())))};
  }
  if (!is_needed) return std::nullopt;  // spares, and nodes that wait for a first round
  if (round_.phase() == Round::Phase::sealed && round_.count(State::succeeded) > 0) {
    return OrderOutcome{Kind::not_now,
                        "some nodes have finished their work, and would have to do it again: wait "
                        "for the end, or stop the job"};
  }
  const std::size_t left = round_.staying() - leave;
  if (left < static_cast<std::size_t>(terms_.nodes_min)) {
    return OrderOutcome{Kind::not_now,
                        fmt::format("{} would be left of at least {}: start another first, which "
                                    "takes over",
                                    node_count_text(left), terms_.nodes_min)};
  }
  return std::nullopt;
}

// These nodes get no other seat. They go as soon as none of the round's workers is alive there.
void Job::dismiss(TimePoint now, const std::vector<LinkId>& links, const std::string& why,
                  coordinator::Actions& actions) {
  bool breaks = false;
  for (const LinkId link : links) {
    const Member& member = *round_.find(link);
    if (member.leaving) continue;
    breaks = breaks || has_a_seat(member);
    evicted_nodes_.add(member.join, why);
    round_.mark_leaving(link, why);
  }
  if (breaks && round_.phase() == Round::Phase::sealed) {
    round_end_.change = round_end_.ordered = true;
    break_round(now, why, actions);
  }
  for (const LinkId link : links) let_go(link, actions);
  settle(now, actions);
  consider_sealing(now, actions);
}

// Excludes a host on which rounds repeatedly fail first, if the job can do without it. To be called
// when no worker of a round is alive.
void Job::leave_out(TimePoint now, const std::string& host, coordinator::Actions& actions) {
  const HostLimit& limit = terms_.restarts.host_limit;
  const std::string in_time =
      limit.window > Duration{} ? fmt::format(" within {} s", in_seconds(limit.window)) : "";
  const std::string why = fmt::format("{} {} on {}{} (--max-host-failures={})", limit.failures,
                                      limit.failures == 1 ? "round failed" : "rounds failed", host,
                                      in_time, limit.failures);
  const auto links = nodes_of_host(host);
  std::string objection;
  if (!links.empty()) {
    if (const auto found = objection_to_dismiss(links)) objection = found->sentence;
  } else if (round_.staying() < static_cast<std::size_t>(terms_.nodes_min)) {
    objection = fmt::format("{} is left of at least {}: start another, which takes over",
                            node_count_text(round_.staying()), terms_.nodes_min);
  }
  if (objection.empty()) {
    if (const auto done = exclusions_.exclude(now, host, {}, why); !done) {
      objection = done.error().reason;
    }
  }
  if (!objection.empty()) {
    actions.emplace_back(coordinator::Note{
        .line = fmt::format("{}; it would get no other seat, but {}", why, objection),
        .level = LogLevel::warning});
    return;
  }
  actions.emplace_back(
      coordinator::Note{.line = fmt::format("{} is excluded until the job is over: {}", host, why),
                        .level = LogLevel::warning});
  for (const LinkId link : links) {
    if (round_.find(link)->leaving) continue;
    evicted_nodes_.add(round_.find(link)->join, why);
    round_.mark_leaving(link, why);
    let_go(link, actions);
  }
}

// Removes a node that leaves once none of the round's workers is alive there. The node is informed
// unless it left on its own.
void Job::let_go(LinkId link, coordinator::Actions& actions) {
  const Member* member = round_.find(link);
  if (member == nullptr || !member->leaving || has_a_seat(*member)) return;
  if (member->local) return;  // It goes when it is known which node leads instead.
  if (!member->dismissed.empty()) {
    if (member->connected && votes_.has_vote(link) && !votes_.is_settled()) {
      actions.emplace_back(coordinator::Say{link, drain_of_round(*member)});
      return;  // called again when the node has given up its vote
    }
    actions.emplace_back(
        change_of(*member, coordinator::NodeChange::Kind::left, member->dismissed));
    // A node whose link is broken is informed when it reconnects.
    if (member->connected) {
      actions.emplace_back(coordinator::Say{link, link::Dismissed{member->dismissed}});
      actions.emplace_back(coordinator::HangUp{link, member->dismissed});
    }
  }
  leases_.forget(link);
  round_.leave(link);
  // The next coordinator need not wait for it: it does not come back.
  if (steps_ > 0) ++steps_;
}

// Rejects agents that were asked to leave but did not receive that, and nodes of excluded hosts.
bool Job::turn_away(TimePoint now, const Caller& caller, const link::Join& join,
                    coordinator::Actions& actions) {
  const bool is_idle = join.after == RoundNumber{} || join.idle;
  if (const std::string* why = is_idle ? evicted_nodes_.find(join) : nullptr) {
    actions.emplace_back(coordinator::Say{caller.link, link::Dismissed{*why}});
    actions.emplace_back(coordinator::HangUp{caller.link, *why});
  } else if (const auto objection = over() || caller.local
                                        ? std::nullopt
                                        : exclusions_.objection(now, join, caller.peer)) {
    coordinator::refuse({caller.link, caller.peer}, join.host, *objection, actions);
  } else {
    return false;
  }
  // Its older link, now gone, may have been the last thing waited for.
  settle(now, actions);
  consider_sealing(now, actions);
  return true;
}

}  // namespace cpprun
