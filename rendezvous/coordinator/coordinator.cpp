// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "rendezvous/job/bounds.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/job_record_json.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/job_texts.h"
#include "rendezvous/job/operator_command.h"

namespace cpprun {

namespace {

using Kind = CommandResult::Kind;

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)),
      role_(options_.follows),
      newcomers_(options_.limits.links_per_source, options_.limits.newcomers),
      places_({.jobs = options_.limits.jobs, .per_source = options_.limits.jobs_per_source}) {
  if (options_.stands_by) election_.emplace();
  if (!options_.only || election_) return;
  jobs_.add(options_.only->id, {Job{*options_.only, options_.options}, Store{}, {}, {}, 0});
}

Coordinator::Actions Coordinator::handle(TimePoint now, const Event& event) {
  Actions actions;
  std::visit([&](const auto& what) { on(now, what, actions); }, event);
  return actions;
}

// --- links that have not joined ------------------------------------------------------------------

void Coordinator::on(TimePoint now, const Opened& event, Actions& actions) {
  const LinkId link = event.caller.link;
  const auto opened = newcomers_.open(now, event.caller);
  if (opened) return;
  const std::string& reason = opened.error().reason;
  actions.emplace_back(coordinator::Say{link, link::Refused{reason}});
  actions.emplace_back(coordinator::HangUp{link, reason});
  actions.emplace_back(coordinator::Note{.line = "rejected a connection: " + reason,
                                         .level = LogLevel::warning,
                                         .of_unidentified = true});
}

void Coordinator::on(TimePoint now, const Said& event, Actions& actions) {
  const Caller* const newcomer = newcomers_.find(event.link);
  if (newcomer == nullptr) return hear(now, event, actions);
  const Caller caller = *newcomer;
  const auto* question = std::get_if<link::WhoHosts>(&event.message);
  if (question != nullptr && question->joins) return introduce(caller, *question, actions);
  newcomers_.identify(event.link);
  if (question != nullptr) {
    answer(now, caller, *question, actions);
    return;
  }
  const auto* first = std::get_if<link::Join>(&event.message);
  if (first == nullptr) {
    actions.emplace_back(coordinator::HangUp{event.link, "the first message was not a join"});
    return;
  }
  join(now, caller, *first, actions);
}

// The peer considers itself a master, but the address it was given leads here.
void Coordinator::answer(TimePoint now, const Caller& caller, const link::WhoHosts& question,
                         Actions& actions) {
  const bool is_of_ours = options_.only && question.job == options_.only->id;
  if (is_of_ours && question.leads_port != 0 && options_.options.standby) {
    return hear_leader(now, caller, question, actions);
  }
  link::Hosts answer;
  if (options_.only) {
    const Member* host = hosted() == nullptr ? nullptr : hosted()->job.round().local_member();
    if (host == nullptr) {
      actions.emplace_back(coordinator::HangUp{caller.link, "no node hosts the job here yet"});
      return;
    }
    answer = {.job = options_.only->id,
              .host = host->join.host,
              .pid = host->join.pid,
              .itself = host->join.host == question.host && host->join.pid == question.pid &&
                        host->join.agent == question.agent};
    if (!answer.itself && question.job == answer.job) {
      actions.emplace_back(coordinator::Note{second_master_text(question, caller.peer)});
    }
  }
  actions.emplace_back(coordinator::Say{caller.link, answer});
  actions.emplace_back(coordinator::HangUp{caller.link, "query answered"});
}

void Coordinator::introduce(const Caller& caller, const link::WhoHosts& agent, Actions& actions) {
  if (!newcomers_.introduce(caller, agent)) {
    actions.emplace_back(coordinator::HangUp{caller.link, "introduced itself twice"});
    return;
  }
  actions.emplace_back(
      coordinator::Say{caller.link, link::Hosts{.job = agent.job, .itself = true}});
  JobTable::Entry* const entry = agent.agent == 0 ? nullptr : jobs_.find(agent.job);
  if (entry != nullptr && entry->owner == caller.owner) entry->job.speaks_from(agent, caller.peer);
}

// The agent is a member now, so it may also use the addresses from which it has introduced itself.
void Coordinator::welcome(Job& job, const JoinRequest& request, Actions& actions) {
  for (const auto& [agent, caller] : newcomers_.introductions_of(request.join.agent)) {
    if (agent.job != request.join.job || caller.owner != request.caller.owner) continue;
    if (!job.speaks_from(agent, caller.peer)) continue;
    actions.emplace_back(coordinator::HangUp{caller.link, "the agent has joined"});
  }
}

// --- joining -------------------------------------------------------------------------------------

void Coordinator::join(TimePoint now, const Caller& caller, const link::Join& join,
                       Actions& actions) {
  if (const auto reason = impossible(join)) {
    coordinator::refuse({caller.link, caller.peer}, join.host, *reason, actions);
    return;
  }
  if (const auto owner = owner_of(join.job); owner && *owner != caller.owner) {
    // Say nothing about the owner or the job.
    coordinator::refuse({caller.link, caller.peer}, join.host,
                        fmt::format("job id \"{}\" belongs to another user; choose another "
                                    "--rdzv-id",
                                    join.job),
                        actions);
    return;
  }
  if (turns_away(caller, join, actions)) return;
  if (election_ && join.job == options_.only->id) {
    return ask_standby(now, caller, join, actions);
  }
  if (JobTable::Entry* const entry = jobs_.find(join.job)) {
    const std::size_t said_before = actions.size();
    Job& job = entry->job;
    if (job.is_deposed()) {
      const bool resumes = !led_ && job.takes_back_vote(caller, join);
      if (!resumes) return turn_away(caller, join, actions);
      job.lead_again(now, actions);
    }
    enter(now, *entry, {caller, join}, actions);
    look_after(join.job, said_before, actions);
    return;
  }
  if (options_.only) {
    coordinator::refuse({caller.link, caller.peer}, join.host,
                        fmt::format("this master runs job \"{}\", but {} has job \"{}\"; use the "
                                    "same --rdzv-id on every node, and one port per job",
                                    options_.only->id, join.host, join.job),
                        actions);
    return;
  }
  if (JobTable::Opening* const opening = jobs_.opening(join.job)) {
    jobs_.add_link(caller.link, join.job);
    opening->nodes.push_back({caller, join});
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
        "this daemon accepts a lease of at most {} s, but {} has {} s (keep_alive_interval times "
        "keep_alive_max_attempt of --rdzv-conf); use a shorter lease, or start "
        "cpprund with --max-lease={}",
        in_seconds(limits.lease), join.host, in_seconds(join.lease),
        std::ceil(in_seconds(join.lease))));
  }
  if (join.job == hosts_record_name) {
    return refuse("this job id is reserved; choose another --rdzv-id");
  }
  const auto may = places_.check(now, join.job, caller.peer);
  if (!may) return refuse(may.error().reason);
  if (const auto excluded = exclusions_.objection(now, join, caller.peer)) return refuse(*excluded);
  if (places_.is_full() && !make_place(actions)) {
    return refuse(fmt::format("this daemon runs {} jobs, the maximum (--max-jobs)", limits.jobs));
  }
  places_.take(caller.peer);
  jobs_.add_link(caller.link, join.job);
  jobs_.open(join.job, {caller.peer, caller.owner, {{caller, join}}});
  early_.expect(caller.link);
  actions.emplace_back(coordinator::OpenStore{join.job, join.store_is_local});
}

void Coordinator::on(TimePoint now, const StoreReady& event, Actions& actions) {
  const auto opening = jobs_.take_opening(event.job);
  if (opening && opening->before) return recover(now, event, *opening, actions);
  if (!opening || opening->nodes.empty()) {
    // All nodes that wanted this job have left in the meantime.
    if (opening) places_.give_back(opening->founder);
    actions.emplace_back(coordinator::CloseStore{event.job, "all nodes of the job have left"});
    return;
  }
  ended_.forget(event.job);
  const link::Join& first = opening->nodes.front().join;
  JobTable::Entry& entry =
      jobs_.add(event.job, {Job{terms_of(first), options_of(first, event.port)}, Store{},
                            opening->founder, opening->owner, 0});
  actions.emplace_back(coordinator::Note{
      first.store_is_local
          ? fmt::format("job \"{}\" begins; workers reach its store through their nodes", event.job)
          : fmt::format("job \"{}\" begins; its store is on port {}", event.job, event.port)});
  entry.job.exclude_as(exclusions_);
  const std::size_t said_before = actions.size();
  for (const JoinRequest& each : opening->nodes) enter(now, entry, each, actions);
  look_after(event.job, said_before, actions);
}

void Coordinator::on(TimePoint, const StoreFailed& event, Actions& actions) {
  const auto opening = jobs_.take_opening(event.job);
  if (!opening) return;
  places_.give_back(opening->founder);
  if (opening->before) {
    actions.emplace_back(
        coordinator::Note{.line = fmt::format("job \"{}\" cannot resume: cannot open its store: {}",
                                              event.job, event.reason),
                          .level = LogLevel::warning});
    actions.emplace_back(coordinator::CloseStore{event.job, "the job cannot resume"});
  }
  for (const auto& [caller, each] : opening->nodes) {
    coordinator::refuse({caller.link, caller.peer}, each.host,
                        "cannot open a store for this job: " + event.reason, actions);
  }
}

void Coordinator::enter(TimePoint now, JobTable::Entry& entry, const JoinRequest& request,
                        Actions& actions) {
  const auto& [caller, join] = request;
  jobs_.add_link(caller.link, join.job);
  const auto said_before = static_cast<std::ptrdiff_t>(actions.size());
  entry.job.join(now, caller, join, actions);
  if (join.turns) role_.add_switching(caller.link);
  // The takeover window is known before a seat is.
  Actions first;
  tell_members(caller.link, first);
  actions.insert(actions.begin() + said_before, first.begin(), first.end());
  welcome(entry.job, request, actions);
  for (const link::Message& early : early_.take(caller.link)) {
    entry.job.hear(now, caller.link, early, actions);
  }
  // Members of a hosted job do not count in the quota of their address.
  if (options_.only && entry.job.round().find(caller.link) != nullptr) {
    newcomers_.release(caller.link);
  }
}

JobOptions Coordinator::options_of(const link::Join& first, int store_port) const {
  JobOptions options = options_.options;
  options.store_port = store_port;
  if (first.lease > Duration{}) options.lease = first.lease;
  // While another daemon may take this one's place, a node's workers live on for this long.
  if (role_.members()) options.takeover_window = role_.members()->takeover_window;
  if (first.last_call > Duration{}) options.last_call = first.last_call;
  return options;
}

// --- the life of a job ---------------------------------------------------------------------------

void Coordinator::hear(TimePoint now, const Said& event, Actions& actions) {
  if (JobTable::Entry* const entry = jobs_.of_link(event.link)) {
    const std::size_t said_before = actions.size();
    if (entry->store.has_process_group()) entry->job.found_process_group(actions);
    entry->job.hear(now, event.link, event.message, actions);
    return look_after(*jobs_.job_of(event.link), said_before, actions);
  }
  // A reconnecting agent repeats right after its join what may have been lost.
  if (early_.keep(event.link, event.message)) return;
  actions.emplace_back(
      coordinator::HangUp{event.link, "too many messages before the job is ready"});
}

void Coordinator::on(TimePoint now, const Closed& event, Actions& actions) {
  newcomers_.close(event.link);
  role_.close(event.link);
  early_.forget(event.link);
  const auto id = jobs_.close_link(event.link);
  if (!id) return;
  if (election_) election_->close(event.link);
  JobTable::Entry* const entry = jobs_.find(*id);
  if (entry == nullptr) return;
  const std::size_t said_before = actions.size();
  entry->job.close(now, {event.link, event.reason, event.broken}, actions);
  look_after(*id, said_before, actions);
}

void Coordinator::on(TimePoint now, const StoreAsked& event, Actions&) {
  if (JobTable::Entry* const entry = jobs_.find(event.job)) entry->job.store_asked(now);
}

void Coordinator::on(TimePoint, const MasterWaits& event, Actions&) {
  JobTable::Entry* const entry = options_.only ? jobs_.find(options_.only->id) : nullptr;
  if (entry != nullptr) entry->job.master_waits(event.why);
}

void Coordinator::on(TimePoint now, const LookedAt& event, Actions& actions) {
  if (!event.job) {
    for (const auto& [id, entry] : jobs_.all()) entry->job.look(now, actions);
  } else if (JobTable::Entry* const entry = jobs_.find(*event.job)) {
    entry->job.look(now, actions);
  }
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
  JobTable::Entry& entry = jobs_.at(job);
  for (std::size_t i = said_before; i < actions.size(); ++i) {
    if (std::holds_alternative<coordinator::ResetStore>(actions[i])) entry.store.clear();
  }
  if (const auto led = entry.job.transferred_to()) led_ = led;
  if (options_.only || entry.job.round().size() > 0) {
    jobs_.plan(job);
    if (options_.keeps_records) keep(job, entry, said_before, actions);
    return;
  }
  places_.give_back(entry.founder);
  if (entry.job.over() && entry.job.since()) {
    ended_.add(*entry.job.since(), measured(entry.job, *entry.job.since()));
  }
  actions.emplace_back(coordinator::Note{fmt::format("job \"{}\" is over", job)});
  forget(job, "the job is over", actions);
}

void Coordinator::forget(const std::string& job, const std::string& why, Actions& actions) {
  actions.emplace_back(coordinator::CloseStore{job, why});
  jobs_.erase(job);
}

// All slots are taken: evicts the job that all of its nodes left first.
bool Coordinator::make_place(Actions& actions) {
  std::optional<std::string> gone;
  std::optional<Job::Unattended> its;
  for (const auto& [id, entry] : jobs_.all()) {
    const auto unattended = entry->job.unattended();
    if (!unattended || (its && its->since <= unattended->since)) continue;
    gone = id;
    its = unattended;
  }
  if (!gone || !places_.keep_name(*gone, jobs_.at(*gone).founder, its->until)) return false;
  actions.emplace_back(coordinator::Note{
      .line = fmt::format("job \"{}\" was dropped for a new job: all {} slots are taken "
                          "(--max-jobs), and none of its nodes is connected",
                          *gone, options_.limits.jobs),
      .level = LogLevel::warning});
  forget(*gone, "the job was dropped for a new job", actions);
  return true;
}

Coordinator::Actions Coordinator::advance(TimePoint now) {
  Actions actions;
  for (const LinkId link : newcomers_.expire(now)) {
    actions.emplace_back(coordinator::HangUp{link, "no message after the greeting"});
  }
  const bool hurries = is_over();
  for (const LinkId link : newcomers_.make_room(now, hurries)) {
    const auto* why =
        hurries ? "the job is over" : "its file descriptor is needed for others (raise ulimit -Hn)";
    actions.emplace_back(
        coordinator::HangUp{link, fmt::format("no message after the greeting, and {}", why)});
  }
  places_.forget_names(now);
  for (const std::string& job : jobs_.take_due(now)) {
    const std::size_t said_before = actions.size();
    jobs_.at(job).job.advance(now, actions);
    look_after(job, said_before, actions);
  }
  return actions;
}

std::optional<TimePoint> Coordinator::next_deadline() const {
  std::optional<TimePoint> next = newcomers_.next_deadline(is_over());
  for (const auto& each : {jobs_.next_deadline(), places_.next_to_forget()}) {
    if (each && (!next || *each < *next)) next = each;
  }
  return next;
}

// --- the standby of a job ------------------------------------------------------------------------

void Coordinator::on(TimePoint, const RecordReceived& event, Actions&) {
  if (!election_ || event.record.job() != options_.only->id) return;
  election_->update(event.record, event.first_link);
}

void Coordinator::on(TimePoint now, const VoteRequest& event, Actions& actions) {
  if (!election_ || (event.is_transfer && !election_->has_record())) return;
  election_->stand(event.own);
  if (event.is_transfer) return lead(now, /*is_transfer=*/true, actions);
  if (election_->stands()) return consider_leading(now, actions);
  // They may follow the other coordinator again.
  for (const auto& [caller, join] : election_->dismiss()) {
    redirect(caller.link, {"the coordinator responds again"}, actions);
  }
}

void Coordinator::ask_standby(TimePoint now, const Caller& caller, const link::Join& join,
                              Actions& actions) {
  if (const std::string reason = election_->objection_to(join); !reason.empty()) {
    return redirect(caller.link, {reason}, actions);
  }
  jobs_.add_link(caller.link, join.job);
  election_->add(caller, join);
  consider_leading(now, actions);
  // A node that has finished waits for the end of the job, not for a seat.
  if (!election_ || join.done) return;
  actions.emplace_back(coordinator::Say{caller.link, link::Waiting{election_->waiting_text()}});
}

void Coordinator::consider_leading(TimePoint now, Actions& actions) {
  if (election_->is_elected()) lead(now, /*is_transfer=*/false, actions);
}

// Like a recovery after any other loss of a coordinator, except that the node that hosted it is
// known to be gone.
void Coordinator::lead(TimePoint now, bool is_transfer, Actions& actions) {
  const auto [record, first_link, host, asked] = election_->take();
  election_.reset();
  const std::string id = record.job();
  JobTable::Entry& entry = jobs_.add(id, {Job{now, record, options_.options, first_link}, Store{},
                                          record.founder, record.owner, 0});
  actions.emplace_back(coordinator::Lead{id});
  const std::size_t said_before = actions.size();
  // No voter had heard from the coordinator for at least this long.
  const TimePoint heard = now - bounds::vote_timeout(options_.options.lease);
  if (host) {
    is_transfer ? entry.job.succeed_host(now, *host, actions)
                : entry.job.lose_host(now, heard, *host, actions);
  }
  for (const JoinRequest& each : asked) enter(now, entry, each, actions);
  look_after(id, said_before, actions);
}

// A standby reports that it leads the job of a master that was lost, and has found this master in
// its place.
void Coordinator::hear_leader(TimePoint now, const Caller& caller, const link::WhoHosts& leader,
                              Actions& actions) {
  const link::Led led{leader.leads_address, leader.leads_port};
  JobTable::Entry* const entry = jobs_.find(options_.only->id);
  const std::size_t said_before = actions.size();
  if (entry != nullptr && entry->job.step_aside(now, led, actions)) {
    const bool is_transferred = entry->job.transfers_leadership();
    if (!led_) {
      actions.emplace_back(coordinator::Note{
          is_transferred ? fmt::format("leadership moved to {}", leader.host)
                         : fmt::format("job \"{}\" has another leader, {}; this node joins it",
                                       options_.only->id, leader.host)});
    }
    led_ = led;
    look_after(options_.only->id, said_before, actions);
  } else if (entry != nullptr && !entry->job.over()) {
    actions.emplace_back(coordinator::Note{
        .line = fmt::format("{} ({}) is already the leader of a running job with the same name, "
                            "\"{}\"; stop that job or this one",
                            leader.host, caller.peer, options_.only->id),
        .level = LogLevel::warning});
  }
  actions.emplace_back(coordinator::HangUp{caller.link, "query answered"});
}

void Coordinator::turn_away(const Caller& caller, const link::Join& join, Actions& actions) const {
  const std::string reason = "this coordinator lost leadership; a standby may be the leader by now";
  if (led_ && join.can_lead) {
    actions.emplace_back(coordinator::Say{caller.link, *led_});
  } else if (caller.local) {
    actions.emplace_back(coordinator::Say{caller.link, link::Refused{reason}});
  }
  actions.emplace_back(coordinator::HangUp{caller.link, reason});
}

// --- one of several daemons ----------------------------------------------------------------------

// It decided nothing while it followed. It knows only the nodes that connect from now on.
void Coordinator::on(TimePoint, const Leads& event, Actions& actions) {
  role_.lead(event.members);
  for (const LinkId link : role_.switching()) tell_members(link, actions);
  actions.emplace_back(
      coordinator::Note{fmt::format("this cpprund is the leader (epoch {})", event.members.epoch)});
}

void Coordinator::on(TimePoint, const Follows& event, Actions& actions) {
  if (!follows()) drop_everything(event, actions);
  role_.follow(event);
  if (event.is_about_to_lead) return;
  for (const auto& [caller, join] : role_.take_waiting()) turns_away(caller, join, actions);
}

void Coordinator::on(TimePoint now, const LetsIn&, Actions& actions) {
  for (const auto& [caller, hers] : role_.take_waiting()) join(now, caller, hers, actions);
}

void Coordinator::on(TimePoint, const MembersChanged& event, Actions& actions) {
  if (!role_.change_addresses(event.places)) return;
  for (const LinkId link : role_.switching()) tell_members(link, actions);
}

// Another daemon may have these jobs by now, so nodes receive only the new leader's address.
void Coordinator::drop_everything(const Follows& event, Actions& actions) {
  const std::string why = event.reason;
  actions.emplace_back(
      coordinator::Note{.line = "this cpprund is no longer the leader: " + why,
                        .level = event.is_planned ? LogLevel::info : LogLevel::warning});
  const link::NotLeading answer{why, event.address, event.port};
  for (const auto& [link, job] : jobs_.links()) redirect(link, answer, actions);
  for (const auto& [link, caller] : newcomers_.all()) redirect(link, answer, actions);
  for (const auto& [job, entry] : jobs_.all()) {
    actions.emplace_back(
        coordinator::CloseStore{job, "the job continues on another cpprund", true});
  }
  for (const auto& [job, opening] : jobs_.openings()) {
    actions.emplace_back(
        coordinator::CloseStore{job, "the job continues on another cpprund", true});
  }
  CoordinatorOptions options = options_;
  options.follows = true;
  *this = Coordinator{std::move(options)};
}

// Whether the agent cannot join here now: it has to wait until this daemon leads, or is redirected.
bool Coordinator::turns_away(const Caller& caller, const link::Join& join, Actions& actions) {
  if (role_.is_about_to_lead()) {
    role_.add_waiting(caller, join);
    early_.expect(caller.link);
    return true;
  }
  const auto objection = role_.objection_to(join);
  if (!objection) return false;
  if (!follows()) {
    actions.emplace_back(coordinator::Note{
        .line = objection->reason, .level = LogLevel::warning, .of_unidentified = true});
  }
  redirect(caller.link, *objection, actions);
  return true;
}

void Coordinator::redirect(LinkId link, const link::NotLeading& answer, Actions& actions) {
  actions.emplace_back(coordinator::Say{link, answer});
  actions.emplace_back(coordinator::HangUp{link, answer.reason});
}

void Coordinator::tell_members(LinkId link, Actions& actions) const {
  if (!role_.members() || !role_.switching().contains(link)) return;
  link::Members members = *role_.members();
  const JobTable::Entry* const entry = jobs_.of_link(link);
  members.keeps_round = entry != nullptr && entry->job.keeps_round_of(link);
  const Member* const member = entry == nullptr ? nullptr : entry->job.round().find(link);
  if (member != nullptr && is_own(member->join)) members.takeover_window = {};
  actions.emplace_back(coordinator::Say{link, std::move(members)});
}

// --- records, for the next coordinator -----------------------------------------------------------

JobRecord Coordinator::record_of(const std::string& job) const {
  const JobTable::Entry& entry = jobs_.at(job);
  JobRecord record = entry.job.record();
  record.founder = entry.founder;
  record.owner = entry.owner;
  for (JobRecord::Node& node : record.nodes) {
    if (is_own(node.join) && record.round.value > entry.recovered_round.value) node.hosts = true;
  }
  return record;
}

// A job of fixed size has nothing to gain from it: it waits for that node.
bool Coordinator::is_own(const link::Join& join) const {
  return options_.own_agent == RoundVotes::Agent{join.host, join.pid, join.agent} &&
         join.nodes_min < join.nodes_max;
}

// Inserted before the first action that follows from the change. A node that has received a
// decision then finds, when it reconnects, a coordinator that knows it too.
void Coordinator::keep(const std::string& job, JobTable::Entry& entry, std::size_t said_before,
                       Actions& actions) {
  const std::uint64_t steps = entry.job.steps();
  if (steps == entry.kept) return;
  entry.kept = steps;
  actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(said_before),
                 coordinator::KeepRecord{job});
}

// As if its first node had just connected: the job exists once its store is ready.
void Coordinator::on(TimePoint now, const Recovered& event, Actions& actions) {
  const JobRecord& record = event.record;
  const std::string& job = record.job();
  if (options_.only && job == options_.only->id) return recover_hosted(now, event, actions);
  if (options_.only || jobs_.find(job) != nullptr || jobs_.opening(job) != nullptr) return;
  places_.take(record.founder);
  jobs_.open(job, {record.founder, record.owner, {}, event});
  actions.emplace_back(coordinator::OpenStore{job, record.nodes.front().join.store_is_local});
}

void Coordinator::on(TimePoint now, const HostsExcluded& event, Actions& actions) {
  if (options_.only) return;
  exclusions_ = Exclusions{event.hosts};
  const std::string hosts = exclusions_.list(now);
  keep_hosts(actions);  // keeps them here too, or deletes the record if all have expired
  if (hosts.empty()) return;
  actions.emplace_back(
      coordinator::Note{fmt::format("still excluded from all new jobs: {}", hosts)});
}

void Coordinator::recover(TimePoint now, const StoreReady& event, const JobTable::Opening& opening,
                          Actions& actions) {
  const auto& [record, first_link, has_store] = *opening.before;
  const JobOptions options = options_of(record.nodes.front().join, event.port);
  JobTable::Entry& entry = jobs_.add(event.job, {Job{now, record, options, first_link, has_store},
                                                 Store{}, opening.founder, opening.owner, 0});
  entry.recovered_round = record.round;
  const Job& job = entry.job;
  actions.emplace_back(coordinator::Note{
      job.over() ? fmt::format("job \"{}\" is over, but {} of its nodes may not have been notified",
                               event.job, job.round().size())
                 : fmt::format("job \"{}\" resumes; its {} nodes must reconnect within {} s",
                               event.job, job.round().size(), in_seconds(job.lease()))});
  if (has_store) actions.emplace_back(coordinator::RestoreStore{event.job});
  const std::size_t said_before = actions.size();
  for (const JoinRequest& each : opening.nodes) enter(now, entry, each, actions);
  look_after(event.job, said_before, actions);
}

void Coordinator::recover_hosted(TimePoint now, const Recovered& event, Actions& actions) {
  const auto& [record, first_link, has_store] = event;
  jobs_.erase(record.job());
  jobs_.add(record.job(), {Job{now, record, options_.options, first_link, has_store}, Store{},
                           record.founder, record.owner, 0});
  look_after(record.job(), actions.size(), actions);
}

// --- operators' commands -------------------------------------------------------------------------

void Coordinator::on(TimePoint now, const Ordered& event, Actions& actions) {
  // A handover takes a while. Its reply follows HandedOver.
  if (event.command.is_about_the_daemon() && !follows() && !options_.only) {
    actions.emplace_back(coordinator::Note{text_of(event.command)});
    actions.emplace_back(coordinator::HandOver{event.ticket, event.command});
    return;
  }
  Actions done;
  const CommandResult outcome = command(now, event.command, done);
  // The log shows who gave the command before it shows the effects.
  actions.emplace_back(coordinator::Note{fmt::format(
      "{}: {}{}", text_of(event.command), outcome.is_done() ? "" : "refused: ", outcome.sentence)});
  actions.insert(actions.end(), done.begin(), done.end());
  actions.emplace_back(coordinator::Answered{event.ticket, event.command, outcome});
}

void Coordinator::on(TimePoint, const HandedOver& event, Actions& actions) {
  const auto& [ticket, command, outcome] = event;
  actions.emplace_back(coordinator::Note{fmt::format(
      "{}: {}{}", text_of(command), outcome.is_done() ? "" : "not done: ", outcome.sentence)});
  actions.emplace_back(coordinator::Answered{ticket, command, outcome});
}

CommandResult Coordinator::command(TimePoint now, const OperatorCommand& command,
                                   Actions& actions) {
  if (const auto& following = role_.following()) {
    return {Kind::not_now, following->port == 0
                               ? fmt::format("this cpprund is a standby: {}", following->reason)
                               : fmt::format("this cpprund is a standby; use the leader at {}:{}",
                                             following->address, following->port)};
  }
  if (command.is_about_the_daemon()) {
    return {
        Kind::not_now,
        fmt::format(
            "job \"{}\" is hosted by one of its nodes, not by a cpprund, so it cannot be handed "
            "over; to move a job between hosts without interruption, host it with two cpprunds "
            "(--rdzv-endpoint)",
            options_.only->id)};
  }
  if (command.is_about_a_host() && command.job.empty())
    return command_about_host(now, command, actions);
  if (jobs_.opening(command.job) != nullptr) {
    return {Kind::not_now, fmt::format("job \"{}\" is starting; retry", command.job)};
  }
  if (!knows(command.job)) {
    return {Kind::unknown, fmt::format("unknown job \"{}\"", command.job)};
  }
  if (command.kind == OperatorCommand::Kind::forget)
    return forget_on_command(now, command, actions);
  return command_to_job(now, command, actions);
}

CommandResult Coordinator::command_to_job(TimePoint now, const OperatorCommand& command,
                                          Actions& actions) {
  const std::size_t said_before = actions.size();
  CommandResult outcome = jobs_.at(command.job).job.command(now, command, actions);
  look_after(command.job, said_before, actions);
  return outcome;
}

// Emitted before the reply, so that the change is kept before the operator sees it as done.
void Coordinator::keep_hosts(Actions& actions) const {
  if (options_.keeps_records) actions.emplace_back(coordinator::KeepRecord{hosts_record_name});
}

// Applies the command to each job on its own. A job that cannot run without the host keeps it,
// which does not stop the exclusion from other jobs, including future ones. If no job can exclude
// the host, nothing changes.
CommandResult Coordinator::command_about_host(TimePoint now, const OperatorCommand& command,
                                              Actions& actions) {
  auto jobs = jobs_.running();  // may have nodes of the host
  const bool excludes = command.kind == OperatorCommand::Kind::exclude;
  std::optional<CommandResult> objection;  // the first one
  std::vector<std::string> kept_by;
  const std::size_t keep_it = !excludes ? 0 : std::erase_if(jobs, [&](const std::string& job) {
    auto its = jobs_.at(job).job.objection_to_exclude(command.whom);
    if (!its) return false;
    its->sentence = fmt::format("job \"{}\": {}", job, its->sentence);
    if (!objection) objection = std::move(its);
    if (kept_by.size() < bounds::jobs_named_max) kept_by.push_back(job);
    return true;
  });
  const bool lasts = command.length > Duration{};
  const bool is_for_jobs_to_come = !options_.only && excludes && lasts;
  if (jobs.empty() && objection && !is_for_jobs_to_come) return *std::move(objection);
  CommandResult outcome{Kind::unknown, fmt::format("{} is not excluded", command.whom)};
  if (excludes && !lasts)
    outcome = {Kind::not_now, "no job is running here; set a duration (for_s)"};
  if (is_for_jobs_to_come) {
    const std::string why = told_by(command, "excluded " + command.whom);
    const auto done = exclusions_.exclude(now, command.whom, now + command.length, why);
    if (!done) return {Kind::not_now, done.error().reason};
    keep_hosts(actions);
    outcome = {Kind::done, fmt::format("{} is excluded from all {}jobs for {} s", command.whom,
                                       objection ? "new " : "", in_seconds(command.length))};
  }
  if (!excludes && exclusions_.include(now, command.whom)) {
    keep_hosts(actions);
    outcome = {Kind::done, fmt::format("nodes of {} may join again", command.whom)};
  }
  for (const std::string& job : jobs) {
    OperatorCommand of_job = command;
    of_job.job = job;
    CommandResult done = command_to_job(now, of_job, actions);
    if (jobs.size() == 1 || !outcome.is_done()) outcome = std::move(done);
  }
  if (jobs.size() == 1 && is_for_jobs_to_come && outcome.is_done()) {
    outcome.sentence += "; this also applies to new jobs";
  }
  if (jobs.size() > 1 && outcome.is_done()) {
    outcome.sentence +=
        fmt::format("; this applies to {}{} jobs here", keep_it == 0 ? "all " : "", jobs.size());
  }
  if (objection && outcome.is_done()) {
    outcome.kept_by = std::move(kept_by);
    outcome.sentence += keep_it == 1 ? fmt::format("; but {}", objection->sentence)
                                     : fmt::format("; but {} jobs keep this host, for example {}",
                                                   keep_it, objection->sentence);
  }
  return outcome;
}

// Disconnected nodes of the job may still compute. A new job of that name would reuse their ranks,
// so the name stays reserved until they cannot.
CommandResult Coordinator::forget_on_command(TimePoint now, const OperatorCommand& command,
                                             Actions& actions) {
  const JobTable::Entry& entry = jobs_.at(command.job);
  if (options_.only) {
    return {
        Kind::not_now,
        fmt::format("job \"{}\" is hosted by this cpprun and cannot be forgotten; stop it instead",
                    command.job)};
  }
  const auto unattended = entry.job.unattended();
  if (!entry.job.over() && !unattended) {
    return {Kind::not_now,
            fmt::format("job \"{}\" is not over and has nodes; stop it first", command.job)};
  }
  std::optional<TimePoint> kept_until;
  for (const auto& [link, member] : entry.job.round().members()) {
    if (member->connected) {
      actions.emplace_back(coordinator::HangUp{link, "the job was forgotten"});
    } else {
      kept_until = std::max(kept_until.value_or(now), *member->broke_at + entry.job.lease());
    }
  }
  const bool has_name_kept = kept_until && *kept_until > now;
  if (!has_name_kept) {
    places_.give_back(entry.founder);
  } else if (!places_.keep_name(command.job, entry.founder, *kept_until)) {
    return {Kind::not_now, "too many jobs were forgotten a moment ago; retry in a minute"};
  }
  forget(std::string(command.job), told_by(command, "forgot the job"), actions);
  const std::string until = has_name_kept ? fmt::format(
                                                "; a new job can use its name in {:.0f} s, when "
                                                "none of its workers can still be running",
                                                in_seconds(*kept_until - now))
                                          : std::string();
  return {Kind::done, fmt::format("job \"{}\" is forgotten{}", command.job, until)};
}

// --- what others read ----------------------------------------------------------------------------

std::optional<Coordinator::Seat> Coordinator::seat_of(LinkId link) const {
  const JobTable::Entry* const entry = jobs_.of_link(link);
  if (entry == nullptr) return std::nullopt;
  const Round& round = entry->job.round();
  const Member* const member = round.find(link);
  if (member == nullptr || member->state == Member::State::waiting) return std::nullopt;
  if (!member->group_rank || !entry->job.terms().store_is_local) return std::nullopt;
  if (entry->job.has_lost_its_store() || entry->job.is_deposed()) {
    return std::nullopt;
  }
  return Seat{*job_of(link), round.number(), *member->group_rank};
}

Result<void> Coordinator::admit(const std::string& job, const std::string& peer) const {
  const JobTable::Entry* const entry = jobs_.find(job);
  if (entry == nullptr) return failure("the job is over");
  return entry->job.admit(peer);
}

const Job* Coordinator::find(const std::string& job) const {
  const JobTable::Entry* const entry = jobs_.find(job);
  return entry == nullptr ? nullptr : &entry->job;
}

const JobTable::Entry* Coordinator::hosted() const {
  return options_.only ? jobs_.find(options_.only->id) : nullptr;
}

bool Coordinator::is_over() const {
  return hosted() != nullptr && (hosted()->job.over() || hosted()->job.transferred_to());
}

bool Coordinator::done() const {
  // Newcomers, and nodes that were notified just now, still have to receive it.
  return is_over() && hosted()->job.round().size() == 0 && newcomers_.all().empty() &&
         jobs_.links().empty();
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
