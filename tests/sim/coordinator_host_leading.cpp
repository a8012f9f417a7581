// SPDX-License-Identifier: BSD-3-Clause
// A simulated coordinator of one of several daemons: its leadership, and when it may send.
// CoordinatorServer does the same.

#include <algorithm>
#include <utility>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/job/job_record_json.h"
#include "tests/sim/coordinator_host.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

// --- messages ------------------------------------------------------------------------------------

bool CoordinatorHost::is_in_force() const {
  if (!is_of_set()) return true;
  const auto own = coordinator_.running() ? epoch() : std::nullopt;
  return own && *own == universe_.epoch;
}

RoundId CoordinatorHost::own_round(int number, const std::string& job) {
  if (!is_of_set()) return universe_.judge.sealed_round(number);
  return {coordinator_.machine().find(job)->round().number(), job_ports_[job]};
}

bool CoordinatorHost::may_speak() {
  const bool may = !speaks_until_ || now() < *speaks_until_;
  if (!may) has_kept_quiet_ = true;
  return may;
}

void CoordinatorHost::leader_until(std::optional<TimePoint> until) {
  speaks_until_ = until;
  if (!has_kept_quiet_ || !may_speak()) return;
  has_kept_quiet_ = false;
  for (const LinkId link : network_->links_at(place_)) {
    links_with_gaps_.insert(link);
    say(coordinator::HangUp{link, "messages may be missing"});
  }
}

// Sends an action that is meant for nodes.
void CoordinatorHost::say(const coordinator::Action& action) {
  if (std::holds_alternative<coordinator::Answered>(action)) return;  // judge_command() has it
  if (const auto* hang_up = std::get_if<coordinator::HangUp>(&action)) return say(*hang_up);
  say(std::get<coordinator::Say>(action));
}

void CoordinatorHost::hold_or_say(const coordinator::Action& action) {
  if (!held_.hold(action)) return say(action);
  ++held_count_;
}

void CoordinatorHost::kept(CommitSource keeping, std::uint64_t through) {
  held_.kept(keeping, through);
  std::set<LinkId> have_room;
  while (const auto word = held_.next()) {
    judge_commands_behind(said_count_++, is_heard());
    if (const auto* const action = std::get_if<coordinator::Action>(&*word)) {
      say(*action);
      continue;
    }
    const auto& frame = std::get<CommitQueue::Frame>(*word);
    const ConnectionRef connection = network_->find(frame.link);
    if (!connection || !may_speak()) continue;
    network_->send(connection, Side::agent, {.kind = Packet::Kind::streams, .bytes = frame.bytes});
    have_room.insert(frame.link);
  }
  judge_commands_behind(said_count_, is_heard());
  for (const LinkId link : have_room) stores_.go_on(link);
  forget_for_good();
}

// While something is held, or nothing may be sent, another cpprund may resume the job.
void CoordinatorHost::forget_for_good() {
  if (held_.holds() || (speaks_until_ && now() >= *speaks_until_)) return;
  for (const int job : std::exchange(forgotten_, {})) universe_.judge.coordinator_forgets(job);
}

void CoordinatorHost::send_streams(LinkId link, std::string_view frame) {
  if (!may_speak()) return;
  if (held_.hold(link, frame)) {
    ++held_count_;
    return;
  }
  const ConnectionRef connection = network_->find(link);
  if (!connection) return;
  network_->send(connection, Side::agent,
                 {.kind = Packet::Kind::streams, .bytes = std::string(frame)});
}

std::size_t CoordinatorHost::link_count() const {
  return network_->links_at(place_).size();
}

// --- leadership ----------------------------------------------------------------------------------

std::map<std::string, std::string> CoordinatorHost::records() const {
  return all_records(coordinator_.machine(), moment());
}

void CoordinatorHost::keep(const std::string& job) {
  const std::string bytes = record_bytes(coordinator_.machine(), job, moment());
  if (bytes.empty()) {
    records_.erase(job);
  } else if (!is_of_set()) {
    records_[job] = bytes;
  }
  if (!hooks_.keep_record) return;
  const auto number = bytes.empty() ? hooks_.forget_record(job) : hooks_.keep_record(job, bytes);
  held_.wait_for(CommitSource::record, number);
}

std::map<std::string, std::string> CoordinatorHost::follow(const Coordinator::Follows& follows) {
  std::map<std::string, std::string> kept;
  if (!coordinator_.machine().follows()) {
    (void)held_.drop_all();
    judge_commands_behind(said_count_ = held_count_, false);
    forgotten_.clear();
    has_kept_quiet_ = false;
    kept = records();
    for (const auto& [job, record] : kept) {
      const Job* const its = coordinator_.machine().find(job);
      const bool has_store = its != nullptr && its->terms().store_is_local &&
                             !its->has_lost_its_store() &&
                             its->round().phase() != Round::Phase::gathering;
      if (has_store) stores_.keep_as_replica(job);
    }
    stores_.leave_logs();
  }
  tell(follows);
  return kept;
}

void CoordinatorHost::lead(link::Members members) {
  universe_.trace.line(universe_.time.now(), "cpprund {} leads, in epoch {}", -1 - place_,
                       members.epoch);
  universe_.judge.must(members.epoch >= universe_.epoch, "an epoch is smaller than the one before");
  const bool is_new = members.epoch > universe_.epoch;
  universe_.epoch = std::max(universe_.epoch, members.epoch);
  if (is_new) {
    for (std::size_t job = 0; job < universe_.scenario.jobs.size(); ++job) {
      universe_.judge.another_leads(static_cast<int>(job), true);
    }
  }
  tell(Coordinator::Leads{std::move(members)});
}

// It has recovered everything.
void CoordinatorHost::let_in() {
  universe_.judge.coordinator_begins(
      [this](int job) { return coordinator_.machine().owner_of(job_id(job)).has_value(); }, true);
  tell(Coordinator::LetsIn{});
}

void CoordinatorHost::recover_hosts(std::vector<Exclusions::Entry> hosts) {
  tell(Coordinator::HostsExcluded{std::move(hosts)});
}

void CoordinatorHost::recover_with_replica(JobRecord record) {
  const std::string job = record.job();
  const bool has_store = stores_.has_whole_replica(job, record.round);
  if (!has_store) stores_.end_replica(job);
  const LinkId first = links_before(record);
  tell(Coordinator::Recovered{std::move(record), first, has_store});
}

ClockPair CoordinatorHost::moment() const {
  return {.now = now(), .wall = clock_.wall(universe_.time.now())};
}

}  // namespace cpprun::sim
