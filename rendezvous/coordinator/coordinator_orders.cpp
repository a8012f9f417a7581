// SPDX-License-Identifier: BSD-3-Clause
// The part of Coordinator that handles operators' commands: finds the target, runs the command and
// replies once.

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun {

namespace {

using Kind = OrderOutcome::Kind;

}  // namespace

void Coordinator::on(TimePoint now, const Ordered& event, Actions& actions) {
  // A handover takes a while. Its reply follows HandedOver.
  if (event.order.is_about_the_daemon() && !following_ && !options_.only) {
    actions.emplace_back(coordinator::Note{text_of(event.order)});
    actions.emplace_back(coordinator::HandOver{event.ticket, event.order});
    return;
  }
  Actions done;
  const OrderOutcome outcome = order(now, event.order, done);
  // The log shows who gave the command before it shows the effects.
  actions.emplace_back(coordinator::Note{fmt::format(
      "{}: {}{}", text_of(event.order), outcome.is_done() ? "" : "refused: ", outcome.sentence)});
  actions.insert(actions.end(), done.begin(), done.end());
  actions.emplace_back(coordinator::Answered{event.ticket, event.order, outcome});
}

void Coordinator::on(TimePoint, const HandedOver& event, Actions& actions) {
  const auto& [ticket, order, outcome] = event;
  actions.emplace_back(coordinator::Note{fmt::format(
      "{}: {}{}", text_of(order), outcome.is_done() ? "" : "not done: ", outcome.sentence)});
  actions.emplace_back(coordinator::Answered{ticket, order, outcome});
}

OrderOutcome Coordinator::order(TimePoint now, const Order& order, Actions& actions) {
  if (following_) {
    return {Kind::not_now, following_->port == 0
                               ? fmt::format("this cpprund is a standby: {}", following_->reason)
                               : fmt::format("this cpprund is a standby: ask the leader at {}:{}",
                                             following_->address, following_->port)};
  }
  if (order.is_about_the_daemon()) {
    return {Kind::not_now,
            fmt::format("job \"{}\" is hosted by one of its nodes, which cannot hand over: it "
                        "stays the host until the job is over; jobs that are hosted by two "
                        "cpprunds (--rdzv-endpoint) do not notice which of them leads",
                        options_.only->id)};
  }
  if (order.is_about_a_host() && order.job.empty()) return order_of_host(now, order, actions);
  if (awaiting_store_.contains(order.job)) {
    return {Kind::not_now, fmt::format("job \"{}\" is just about to begin: ask again", order.job)};
  }
  if (!jobs_.contains(order.job)) {
    return {Kind::unknown, fmt::format("no job \"{}\" is known here", order.job)};
  }
  if (order.kind == Order::Kind::forget) return forget_on_order(now, order, actions);
  return order_of_job(now, order, actions);
}

OrderOutcome Coordinator::order_of_job(TimePoint now, const Order& order, Actions& actions) {
  const std::size_t said_before = actions.size();
  OrderOutcome outcome = jobs_.at(order.job)->job.order(now, order, actions);
  look_after(order.job, said_before, actions);
  return outcome;
}

// The jobs that may have nodes of a host, in order of name.
std::vector<std::string> Coordinator::jobs_that_go_on() const {
  std::vector<std::string> names;
  for (const auto& [id, entry] : jobs_) {
    if (!entry->job.over()) names.push_back(id);
  }
  std::ranges::sort(names);
  return names;
}

// Emitted before the reply, so that the change is kept before the operator sees it as done.
void Coordinator::keep_hosts(Actions& actions) const {
  if (options_.keeps_records) actions.emplace_back(coordinator::KeepRecord{hosts_record_name});
}

// Applies the command to each job on its own. A job that cannot run without the host keeps it,
// which does not stop the exclusion from other jobs, including future ones. If no job can exclude
// the host, nothing changes.
OrderOutcome Coordinator::order_of_host(TimePoint now, const Order& order, Actions& actions) {
  auto jobs = jobs_that_go_on();
  const bool excludes = order.kind == Order::Kind::exclude;
  std::optional<OrderOutcome> objection;  // the first one
  std::vector<std::string> kept_by;
  const std::size_t keep_it = !excludes ? 0 : std::erase_if(jobs, [&](const std::string& job) {
    auto its = jobs_.at(job)->job.objection_to_exclude(order.whom);
    if (!its) return false;
    its->sentence = fmt::format("job \"{}\": {}", job, its->sentence);
    if (!objection) objection = std::move(its);
    if (kept_by.size() < bounds::jobs_named_max) kept_by.push_back(job);
    return true;
  });
  const bool lasts = order.length > Duration{};
  const bool is_for_jobs_to_come = !options_.only && excludes && lasts;
  if (jobs.empty() && objection && !is_for_jobs_to_come) return *std::move(objection);
  OrderOutcome outcome{Kind::unknown, fmt::format("{} is not excluded here", order.whom)};
  if (excludes && !lasts) outcome = {Kind::not_now, "no job is here: say for how long (for_s)"};
  if (is_for_jobs_to_come) {
    const std::string why = told_by(order, "excluded " + order.whom);
    const auto done = exclusions_.exclude(now, order.whom, now + order.length, why);
    if (!done) return {Kind::not_now, done.error().reason};
    keep_hosts(actions);
    outcome = {Kind::done, fmt::format("{} is excluded from all jobs{} for {} s", order.whom,
                                       objection ? " to come" : "", in_seconds(order.length))};
  }
  if (!excludes && exclusions_.include(now, order.whom)) {
    keep_hosts(actions);
    outcome = {Kind::done, fmt::format("nodes of {} may take a seat again", order.whom)};
  }
  for (const std::string& job : jobs) {
    Order of_job = order;
    of_job.job = job;
    OrderOutcome done = order_of_job(now, of_job, actions);
    if (jobs.size() == 1 || !outcome.is_done()) outcome = std::move(done);
  }
  if (jobs.size() == 1 && is_for_jobs_to_come && outcome.is_done()) {
    outcome.sentence += "; so it is for all to come";
  }
  if (jobs.size() > 1 && outcome.is_done()) {
    outcome.sentence += fmt::format("; so it is for {}{} jobs that are here",
                                    keep_it == 0 ? "all " : "", jobs.size());
  }
  if (objection && outcome.is_done()) {
    outcome.kept_by = std::move(kept_by);
    outcome.sentence += keep_it == 1 ? fmt::format("; but {}", objection->sentence)
                                     : fmt::format("; but {} jobs keep it, among them {}", keep_it,
                                                   objection->sentence);
  }
  return outcome;
}

// Disconnected nodes of the job may still compute. A new job of that name would reuse their ranks,
// so the name stays reserved until they cannot.
OrderOutcome Coordinator::forget_on_order(TimePoint now, const Order& order, Actions& actions) {
  const auto& entry = jobs_.at(order.job);
  if (options_.only) {
    return {Kind::not_now,
            fmt::format("job \"{}\" is hosted by this cpprun, and goes with it: stop it instead",
                        order.job)};
  }
  const auto unattended = entry->job.unattended();
  if (!entry->job.over() && !unattended) {
    return {Kind::not_now,
            fmt::format("job \"{}\" is not over, and has nodes: stop it first", order.job)};
  }
  std::optional<TimePoint> kept_until;
  for (const auto& [link, member] : entry->job.round().members()) {
    if (member->connected) {
      actions.emplace_back(coordinator::HangUp{link, "its job is forgotten"});
    } else {
      kept_until = std::max(kept_until.value_or(now), *member->broke_at + entry->job.lease());
    }
  }
  const bool has_name_kept = kept_until && *kept_until > now;
  if (!has_name_kept) {
    places_.give_back(entry->founder);
  } else if (!places_.keep_name(order.job, entry->founder, *kept_until)) {
    return {Kind::not_now, "too many jobs were forgotten a moment ago: ask again in a minute"};
  }
  forget(std::string(order.job), told_by(order, "had it forgotten"), actions);
  const std::string until = has_name_kept
                                ? fmt::format(
                                      "; a new job may have its name in {:.0f} s, when its nodes "
                                      "can no longer compute",
                                      in_seconds(*kept_until - now))
                                : std::string();
  return {Kind::done, fmt::format("job \"{}\" is forgotten{}", order.job, until)};
}

}  // namespace cpprun
