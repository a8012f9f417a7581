// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/job_record_json.h"
#include "rendezvous/job/job_terms.h"

namespace cpprun {

void EndedJobs::add(TimePoint now, JobSnapshot job) {
  forget(job.terms.id);
  job.silence_max.reset();  // its nodes are no longer monitored
  ended_.push_back({now, std::move(job)});
  if (ended_.size() > ended_jobs_told_max) ended_.pop_front();
}

void EndedJobs::forget(const std::string& id) {
  std::erase_if(ended_, [&](const Ended& each) { return each.job.terms.id == id; });
}

std::vector<JobSnapshot> EndedJobs::told(TimePoint now) const {
  std::vector<JobSnapshot> jobs;
  for (const Ended& each : ended_) {
    if (now - each.at < ended_job_told) jobs.push_back(each.job);
  }
  return jobs;
}

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)),
      newcomer_leases_(bounds::join_patience),
      links_of_source_(options_.limits.links_per_source),
      places_({.jobs = options_.limits.jobs, .per_source = options_.limits.jobs_per_source}) {
  if (options_.stands_by) candidacy_.emplace();
  if (options_.follows) following_ = Follows{"it is not known yet which cpprund leads"};
  if (!options_.only || candidacy_) return;
  jobs_.emplace(options_.only->id, std::make_unique<Entry>(Entry{
                                       Job{*options_.only, options_.options}, Store{}, {}, {}, 0}));
}

Coordinator::Actions Coordinator::handle(TimePoint now, const Event& event) {
  Actions actions;
  std::visit([&](const auto& what) { on(now, what, actions); }, event);
  return actions;
}

void Coordinator::on(TimePoint now, const Opened& event, Actions& actions) {
  const LinkId link = event.caller.link;
  const std::string& peer = event.caller.peer;
  const bool is_local = event.caller.local;
  if (!is_local) {
    if (!links_of_source_.take(peer)) {
      const std::string reason = fmt::format(
          "{} has {} links here already, the limit of one address (--max-links-per-address of "
          "cpprund)",
          source_of(peer), links_of_source_.most());
      actions.emplace_back(coordinator::Say{link, link::Refused{reason}});
      actions.emplace_back(coordinator::HangUp{link, reason});
      actions.emplace_back(coordinator::Note{
          .line = "refused a link: " + reason, .level = LogLevel::warning, .of_stranger = true});
      return;
    }
    counted_.emplace(link, peer);
    newcomer_leases_.renew(link, now);
  }
  newcomers_.emplace(link, event.caller);
}

void Coordinator::on(TimePoint now, const Said& event, Actions& actions) {
  const auto newcomer = newcomers_.find(event.link);
  if (newcomer == newcomers_.end()) {
    const auto known = job_of_link_.find(event.link);
    const auto entry = known == job_of_link_.end() ? jobs_.end() : jobs_.find(known->second);
    if (entry == jobs_.end()) return hear_early(event, actions);
    const std::size_t said_before = actions.size();
    entry->second->job.hear(now, event.link, event.message, actions);
    look_after(known->second, said_before, actions);
    return;
  }
  const Caller caller = newcomer->second;
  const auto* question = std::get_if<link::WhoHosts>(&event.message);
  if (question != nullptr && question->joins) return introduce(caller, *question, actions);
  newcomers_.erase(newcomer);
  newcomer_leases_.forget(event.link);
  if (question != nullptr) {
    answer(now, caller, *question, actions);
    return;
  }
  const auto* first = std::get_if<link::Join>(&event.message);
  if (first == nullptr) {
    actions.emplace_back(coordinator::HangUp{event.link, "its first message was not a join"});
    return;
  }
  join(now, caller, *first, actions);
}

void Coordinator::on(TimePoint now, const StoreAsked& event, Actions&) {
  if (const auto found = jobs_.find(event.job); found != jobs_.end()) {
    found->second->job.store_asked(now);
  }
}

void Coordinator::on(TimePoint, const MasterWaits& event, Actions&) {
  const auto found = options_.only ? jobs_.find(options_.only->id) : jobs_.end();
  if (found != jobs_.end()) found->second->job.master_waits(event.why);
}

void Coordinator::join(TimePoint now, const Caller& caller, const link::Join& join,
                       Actions& actions) {
  if (const auto reason = impossible(join)) {
    coordinator::refuse({caller.link, caller.peer}, join.host, *reason, actions);
    return;
  }
  if (const auto owner = owner_of(join.job); owner && *owner != caller.owner) {
    // Say nothing about the owner or the job.
    coordinator::refuse({caller.link, caller.peer}, join.host,
                        fmt::format("another user's job is called \"{}\": choose another "
                                    "--rdzv-id",
                                    join.job),
                        actions);
    return;
  }
  if (turns_away(caller, join, actions)) return;
  if (candidacy_ && join.job == options_.only->id) {
    return ask_standby(now, caller, join, actions);
  }
  if (const auto found = jobs_.find(join.job); found != jobs_.end()) {
    const std::size_t said_before = actions.size();
    Job& job = found->second->job;
    if (job.is_deposed()) {
      const bool resumes = !led_ && job.takes_back_vote(caller, join);
      if (!resumes) return turn_away(caller, join, actions);
      job.lead_again(now, actions);
    }
    enter(now, *found->second, {caller, join}, actions);
    look_after(join.job, said_before, actions);
    return;
  }
  if (options_.only) {
    coordinator::refuse(
        {caller.link, caller.peer}, join.host,
        fmt::format("this master runs job \"{}\", but {} came for job \"{}\": give every node "
                    "the same --rdzv-id, and each job its own port",
                    options_.only->id, join.host, join.job),
        actions);
    return;
  }
  if (const auto begins = awaiting_store_.find(join.job); begins != awaiting_store_.end()) {
    job_of_link_[caller.link] = join.job;
    begins->second.nodes.emplace_back(caller, join);
    early_.expect(caller.link);
    return;
  }
  if (join.done) {
    coordinator::refuse({caller.link, caller.peer}, join.host, unknown_round_of(join), actions);
    return;
  }
  begin_job(now, caller, join, actions);
}

// The first node that names a job creates it. Limits bound what it can use of the daemon, and each
// refusal names the limit.
void Coordinator::begin_job(TimePoint now, const Caller& caller, const link::Join& join,
                            Actions& actions) {
  const CoordinatorLimits& limits = options_.limits;
  const auto refuse = [&](const std::string& reason) {
    coordinator::refuse({caller.link, caller.peer}, join.host, reason, actions);
  };
  if (join.lease > limits.lease) {
    return refuse(fmt::format(
        "this daemon waits for a silent node for {} s at most, but {} came with {} s "
        "(keep_alive_interval times keep_alive_max_attempt of --rdzv-conf): ask for less, or start "
        "cpprund with --max-lease={}",
        in_seconds(limits.lease), join.host, in_seconds(join.lease),
        std::ceil(in_seconds(join.lease))));
  }
  if (join.job == hosts_record_name) {
    return refuse("no job may have that name, a record's own: choose another --rdzv-id");
  }
  const auto may = places_.check(now, join.job, caller.peer);
  if (!may) return refuse(may.error().reason);
  if (const auto excluded = exclusions_.objection(now, join, caller.peer)) return refuse(*excluded);
  if (places_.is_full() && !make_place(actions)) {
    return refuse(fmt::format("this daemon runs {} jobs, its limit (--max-jobs)", limits.jobs));
  }
  places_.take(caller.peer);
  job_of_link_[caller.link] = join.job;
  awaiting_store_[join.job] = {caller.peer, caller.owner, {{caller, join}}};
  early_.expect(caller.link);
  actions.emplace_back(coordinator::OpenStore{join.job, join.store_is_local});
}

void Coordinator::on(TimePoint now, const StoreReady& event, Actions& actions) {
  auto begins = awaiting_store_.extract(event.job);
  if (!begins.empty() && begins.mapped().before) {
    return recover(now, event, std::move(begins.mapped()), actions);
  }
  if (begins.empty() || begins.mapped().nodes.empty()) {
    // All nodes that wanted this job have left in the meantime.
    if (!begins.empty()) places_.give_back(begins.mapped().founder);
    actions.emplace_back(coordinator::CloseStore{event.job, "all nodes of its job have left"});
    return;
  }
  const auto& [founder, owner, nodes, before] = begins.mapped();
  ended_.forget(event.job);
  const link::Join& first = nodes.front().second;
  const JobOptions options = options_of(first, event.port);
  const auto entry = jobs_.emplace(
      event.job,
      std::make_unique<Entry>(Entry{Job{terms_of(first), options}, Store{}, founder, owner, 0}));
  actions.emplace_back(coordinator::Note{
      first.store_is_local
          ? fmt::format("job \"{}\" begins; its nodes' links lead to its store", event.job)
          : fmt::format("job \"{}\" begins; its store is on port {}", event.job, event.port)});
  entry.first->second->job.exclude_as(exclusions_);
  const std::size_t said_before = actions.size();
  for (const Newcomer& each : nodes) enter(now, *entry.first->second, each, actions);
  look_after(event.job, said_before, actions);
}

void Coordinator::on(TimePoint, const StoreFailed& event, Actions& actions) {
  const auto begins = awaiting_store_.extract(event.job);
  if (begins.empty()) return;
  places_.give_back(begins.mapped().founder);
  if (begins.mapped().before) {
    actions.emplace_back(coordinator::Note{
        .line = fmt::format("job \"{}\" cannot go on: no store can be opened for it: {}", event.job,
                            event.reason),
        .level = LogLevel::warning});
    actions.emplace_back(coordinator::CloseStore{event.job, "its job cannot go on"});
  }
  for (const auto& [caller, each] : begins.mapped().nodes) {
    coordinator::refuse({caller.link, caller.peer}, each.host,
                        "no store can be opened for this job: " + event.reason, actions);
  }
}

void Coordinator::on(TimePoint now, const Closed& event, Actions& actions) {
  forget_newcomer(event.link);
  newcomer_leases_.forget(event.link);
  release(event.link);
  turning_.erase(event.link);
  early_.forget(event.link);
  const auto is_its = [&](const Newcomer& each) { return each.first.link == event.link; };
  std::erase_if(waiting_, is_its);
  const auto known = job_of_link_.extract(event.link);
  if (known.empty()) return;
  const std::string& job = known.mapped();
  if (const auto begins = awaiting_store_.find(job); begins != awaiting_store_.end()) {
    std::erase_if(begins->second.nodes, is_its);
  }
  if (candidacy_) std::erase_if(candidacy_->asked, is_its);
  const auto entry = jobs_.find(job);
  if (entry == jobs_.end()) return;
  const std::size_t said_before = actions.size();
  entry->second->job.close(now, {event.link, event.reason, event.broken}, actions);
  look_after(job, said_before, actions);
}

// The link no longer counts for its address.
void Coordinator::release(LinkId link) {
  const auto counted = counted_.extract(link);
  if (!counted.empty()) links_of_source_.give_back(counted.mapped());
}

// A daemon has many jobs, so each line names its job.
void Coordinator::sign_notes(const std::string& job, std::size_t said_before,
                             Actions& actions) const {
  if (options_.only) return;
  for (std::size_t i = said_before; i < actions.size(); ++i) {
    if (auto* note = std::get_if<coordinator::Note>(&actions[i])) {
      note->line = fmt::format("job \"{}\": {}", job, note->line);
      note->job = job;
    } else if (auto* change = std::get_if<coordinator::NodeChange>(&actions[i])) {
      change->job = job;
    }
  }
}

// Called after each event of a job. It touches no other job. When the job starts a new round, its
// store is emptied in the same step, because the keys belong to the round. In a daemon, a job
// without nodes is deleted, whether it is over or never started.
void Coordinator::look_after(const std::string& job, std::size_t said_before, Actions& actions) {
  sign_notes(job, said_before, actions);
  const auto entry = jobs_.find(job);
  for (std::size_t i = said_before; i < actions.size(); ++i) {
    if (std::holds_alternative<coordinator::ResetStore>(actions[i])) entry->second->store.clear();
  }
  if (const auto led = entry->second->job.transferred_to()) led_ = led;
  if (options_.only || entry->second->job.round().size() > 0) {
    deadline_queue_.plan(job, entry->second->job.next_deadline());
    if (options_.keeps_records) keep(job, *entry->second, said_before, actions);
    return;
  }
  places_.give_back(entry->second->founder);
  if (const Job& ended = entry->second->job; ended.over() && ended.since()) {
    ended_.add(*ended.since(), measured(ended, *ended.since()));
  }
  actions.emplace_back(coordinator::Note{fmt::format("job \"{}\" is over", job)});
  forget(job, "its job is over", actions);
}

void Coordinator::forget(const std::string& job, const std::string& why, Actions& actions) {
  actions.emplace_back(coordinator::CloseStore{job, why});
  deadline_queue_.plan(job, std::nullopt);
  jobs_.erase(job);
}

// All slots are taken: evicts the job that all of its nodes left first.
bool Coordinator::make_place(Actions& actions) {
  auto gone = jobs_.end();
  std::optional<Job::Unattended> its;
  for (auto each = jobs_.begin(); each != jobs_.end(); ++each) {
    const auto unattended = each->second->job.unattended();
    if (!unattended || (its && its->since <= unattended->since)) continue;
    gone = each;
    its = unattended;
  }
  if (!its || !places_.keep_name(gone->first, gone->second->founder, its->until)) return false;
  actions.emplace_back(coordinator::Note{
      .line = fmt::format("job \"{}\" gives its place to another: all {} are taken (--max-jobs), "
                          "and none of its nodes is connected",
                          gone->first, options_.limits.jobs),
      .level = LogLevel::warning});
  forget(std::string(gone->first), "its job gave its place to another", actions);
  return true;
}

JobOptions Coordinator::options_of(const link::Join& first, int store_port) const {
  JobOptions options = options_.options;
  options.store_port = store_port;
  if (first.lease > Duration{}) options.lease = first.lease;
  // While another daemon may take this one's place, a node's workers live on for this long.
  if (members_) options.patience = members_->patience;
  if (first.last_call > Duration{}) options.last_call = first.last_call;
  return options;
}

std::optional<Coordinator::Seat> Coordinator::seat_of(LinkId link) const {
  const std::string* const job = job_of(link);
  const auto found = job == nullptr ? jobs_.end() : jobs_.find(*job);
  if (found == jobs_.end()) return std::nullopt;
  const Round& round = found->second->job.round();
  const Member* const member = round.find(link);
  if (member == nullptr || member->state == Member::State::waiting) return std::nullopt;
  if (!member->group_rank || !found->second->job.terms().store_is_local) return std::nullopt;
  if (found->second->job.has_lost_its_store() || found->second->job.is_deposed()) {
    return std::nullopt;
  }
  return Seat{*job, round.number(), *member->group_rank};
}

Result<void> Coordinator::admit(const std::string& job, const std::string& peer) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return failure("its job is over");
  return found->second->job.admit(peer);
}

bool Coordinator::is_over() const {
  return hosted() != nullptr && (hosted()->job.over() || hosted()->job.transferred_to());
}

bool Coordinator::done() const {
  // Newcomers, and nodes that were notified just now, still have to receive it.
  return is_over() && hosted()->job.round().size() == 0 && newcomers_.empty() &&
         job_of_link_.empty();
}

Coordinator::Actions Coordinator::advance(TimePoint now) {
  Actions actions;
  for (const Leases::Expired& each : newcomer_leases_.expire(now)) {
    forget_newcomer(each.holder);
    actions.emplace_back(coordinator::HangUp{each.holder, "it greeted, and then said nothing"});
  }
  make_room(now, actions);
  places_.forget_names(now);
  for (const std::string& job : deadline_queue_.take_due(now)) {
    const std::size_t said_before = actions.size();
    jobs_.at(job)->job.advance(now, actions);
    look_after(job, said_before, actions);
  }
  return actions;
}

std::optional<std::string> Coordinator::check() const {
  for (const auto& [id, entry] : jobs_) {
    const auto broken_of = [&job = id](const std::string& what) {
      return fmt::format("job \"{}\": {}", job, what);
    };
    if (const auto broken = entry->job.check()) return broken_of(*broken);
    if (deadline_queue_.deadline_of(id) != entry->job.next_deadline()) {
      return broken_of("its deadline is not on the agenda");
    }
    for (const auto& [link, member] : entry->job.round().members()) {
      const auto known = job_of_link_.find(link);
      if (!member->connected) continue;
      if (known == job_of_link_.end() || known->second != id) {
        return broken_of(fmt::format("the link of {} leads elsewhere", name_of(*member)));
      }
    }
  }
  return std::nullopt;
}

std::optional<TimePoint> Coordinator::next_deadline() const {
  std::optional<TimePoint> next = newcomer_leases_.next_expiry();
  for (const auto& each : {next_to_make_room(), deadline_queue_.next(), places_.next_to_forget()}) {
    if (each && (!next || *each < *next)) next = each;
  }
  return next;
}

std::string record_bytes(const Coordinator& coordinator, const std::string& name,
                         const ClockPair& moment) {
  if (name == hosts_record_name) {
    const auto& hosts = coordinator.excluded_hosts();
    return hosts.empty() ? std::string() : hosts_record_bytes(hosts, moment);
  }
  const JobRecord record = coordinator.record_of(name);
  return record.nodes.empty() ? std::string() : job_record_bytes(record, moment);
}

std::map<std::string, std::string> all_records(const Coordinator& coordinator,
                                               const ClockPair& moment) {
  std::map<std::string, std::string> records;
  const auto add = [&](const std::string& name) {
    auto bytes = record_bytes(coordinator, name, moment);
    if (!bytes.empty()) records[name] = std::move(bytes);
  };
  add(hosts_record_name);
  for (const Job* const job : coordinator.jobs_after("", coordinator.job_count())) {
    add(job->terms().id);
  }
  return records;
}

}  // namespace cpprun
