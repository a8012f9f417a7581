#include "rendezvous/keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/bounds.h"
#include "rendezvous/reception.h"

namespace cpprun {

Keeper::Keeper(KeeperOptions options)
    : options_(std::move(options)), newcomer_leases_(bounds::join_patience) {
  if (!options_.only) return;
  jobs_.emplace(options_.only->id,
                std::make_unique<Entry>(Entry{Job{*options_.only, options_.options}, Store{}}));
}

Keeper::Actions Keeper::handle(TimePoint now, const Event& event) {
  Actions actions;
  std::visit([&](const auto& what) { on(now, what, actions); }, event);
  look_after_stores(actions);
  return actions;
}

void Keeper::on(TimePoint now, const Opened& event, Actions&) {
  newcomers_.emplace(event.caller.link, event.caller);
  if (!event.caller.local) newcomer_leases_.renew(event.caller.link, now);
}

void Keeper::on(TimePoint now, const Said& event, Actions& actions) {
  const auto newcomer = newcomers_.find(event.link);
  if (newcomer == newcomers_.end()) {
    const auto known = job_of_link_.find(event.link);
    if (known == job_of_link_.end()) return;  // Refused, or cut off; it does not know yet.
    const auto entry = jobs_.find(known->second);
    if (entry == jobs_.end()) return;
    const std::size_t said_before = actions.size();
    entry->second->job.hear(now, event.link, event.message, actions);
    sign_notes(entry->first, said_before, actions);
    return;
  }
  const Caller caller = newcomer->second;
  newcomers_.erase(newcomer);
  newcomer_leases_.forget(event.link);
  const auto* first = std::get_if<link::Join>(&event.message);
  if (first == nullptr) {
    actions.emplace_back(keeper::HangUp{event.link, "its first message was not a join"});
    return;
  }
  join(now, caller, *first, actions);
}

void Keeper::join(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions) {
  if (const auto reason = impossible(join)) {
    keeper::refuse({caller.link, caller.peer}, join.host, *reason, actions);
    return;
  }
  if (const auto found = jobs_.find(join.job); found != jobs_.end()) {
    job_of_link_[caller.link] = join.job;
    const std::size_t said_before = actions.size();
    found->second->job.join(now, caller, join, actions);
    sign_notes(found->first, said_before, actions);
    return;
  }
  if (options_.only) {
    keeper::refuse(
        {caller.link, caller.peer}, join.host,
        fmt::format("this master runs job \"{}\", but {} came for job \"{}\": give every node "
                    "the same --rdzv-id, and each job its own port",
                    options_.only->id, join.host, join.job),
        actions);
    return;
  }
  if (jobs_.size() + awaiting_store_.size() >= bounds::jobs_max) {
    keeper::refuse({caller.link, caller.peer}, join.host,
                   fmt::format("this daemon runs {} jobs, its limit", bounds::jobs_max), actions);
    return;
  }
  auto& waiting = awaiting_store_[join.job];
  if (waiting.empty()) actions.emplace_back(keeper::OpenStore{join.job});
  waiting.emplace_back(caller, join);
}

void Keeper::on(TimePoint now, const StoreReady& event, Actions& actions) {
  const auto waiting = awaiting_store_.extract(event.job);
  if (waiting.empty() || waiting.mapped().empty()) {
    // Everybody who wanted this job has gone meanwhile.
    actions.emplace_back(keeper::CloseStore{event.job, "nobody is left of its job"});
    return;
  }
  const link::Join& first = waiting.mapped().front().second;
  JobOptions options = options_.options;
  options.store_port = event.port;
  if (first.lease_milliseconds > 0) {
    options.lease = std::chrono::milliseconds{first.lease_milliseconds};
  }
  if (first.last_call_milliseconds > 0) {
    options.last_call = std::chrono::milliseconds{first.last_call_milliseconds};
  }
  const JobTerms terms = terms_of(first);
  jobs_.emplace(event.job, std::make_unique<Entry>(Entry{Job{terms, options}, Store{}}));
  actions.emplace_back(keeper::Note{
      fmt::format("job \"{}\" begins; its store is on port {}", event.job, event.port)});
  for (const auto& [caller, each] : waiting.mapped()) join(now, caller, each, actions);
}

void Keeper::on(TimePoint, const StoreFailed& event, Actions& actions) {
  const auto waiting = awaiting_store_.extract(event.job);
  if (waiting.empty()) return;
  for (const auto& [caller, each] : waiting.mapped()) {
    keeper::refuse({caller.link, caller.peer}, each.host,
                   "no store can be opened for this job: " + event.reason, actions);
  }
}

void Keeper::on(TimePoint now, const Closed& event, Actions& actions) {
  newcomers_.erase(event.link);
  newcomer_leases_.forget(event.link);
  for (auto& [job, waiting] : awaiting_store_) {
    std::erase_if(waiting, [&](const Newcomer& each) { return each.first.link == event.link; });
  }
  const auto known = job_of_link_.extract(event.link);
  if (known.empty()) return;
  const auto entry = jobs_.find(known.mapped());
  if (entry == jobs_.end()) return;
  const std::size_t said_before = actions.size();
  entry->second->job.close(now, {event.link, event.reason, event.broken}, actions);
  sign_notes(entry->first, said_before, actions);
}

// A daemon has many jobs: each line says whose it is.
void Keeper::sign_notes(const std::string& job, std::size_t said_before, Actions& actions) const {
  if (options_.only) return;
  for (std::size_t i = said_before; i < actions.size(); ++i) {
    if (auto* note = std::get_if<keeper::Note>(&actions[i])) {
      note->line = fmt::format("job \"{}\": {}", job, note->line);
    }
  }
}

// The key space of a round is the round's: emptied in the same breath in which it is sealed. A job
// that everybody has left is forgotten, whether it is over or never began; not the one we host.
void Keeper::look_after_stores(Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* reset = std::get_if<keeper::ResetStore>(&action)) store(reset->job).clear();
  }
  if (options_.only) return;
  std::erase_if(jobs_, [&](const auto& each) {
    if (each.second->job.round().size() > 0) return false;
    actions.emplace_back(keeper::CloseStore{each.first, "its job is over"});
    actions.emplace_back(keeper::Note{fmt::format("job \"{}\" is over", each.first)});
    return true;
  });
}

Result<void> Keeper::admit(const std::string& job, const std::string& peer) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return failure("its job is over");
  return found->second->job.admit(peer);
}

bool Keeper::done() const {
  if (!options_.only) return false;
  const Job& job = jobs_.at(options_.only->id)->job;
  return job.over() && job.round().size() == 0;
}

Keeper::Actions Keeper::advance(TimePoint now) {
  Actions actions;
  for (const Leases::Expired& each : newcomer_leases_.expire(now)) {
    newcomers_.erase(each.holder);
    actions.emplace_back(keeper::HangUp{each.holder, "it greeted, and then said nothing"});
  }
  for (const auto& [id, entry] : jobs_) {
    const auto deadline = entry->job.next_deadline();
    if (!deadline || *deadline > now) continue;
    const std::size_t said_before = actions.size();
    entry->job.advance(now, actions);
    sign_notes(id, said_before, actions);
  }
  look_after_stores(actions);
  return actions;
}

std::optional<TimePoint> Keeper::next_deadline() const {
  std::optional<TimePoint> soonest = newcomer_leases_.next_expiry();
  for (const auto& [id, entry] : jobs_) {
    const auto deadline = entry->job.next_deadline();
    if (deadline && (!soonest || *deadline < *soonest)) soonest = deadline;
  }
  return soonest;
}

}  // namespace cpprun
