// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/daemon_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/bounds.h"
#include "proto/etcd_bounds.h"
#include "proto/state_machine.h"
#include "rendezvous/daemon/member_name.h"
#include "rendezvous/daemon/place.h"
#include "rendezvous/job/exclusions_json.h"

namespace cpprun {

DaemonSet::DaemonSet(SetPorts ports, LedCoordinator& server, DaemonSetOptions options,
                     Callbacks callbacks)
    : ports_(std::move(ports)),
      server_(server),
      options_(std::move(options)),
      memory_(options_.memory),
      callbacks_(std::move(callbacks)),
      standbys_(
          ports_.loop,
          {.standbys_max = options_.standbys_max,
           .say = callbacks_.say,
           .logs = &server.logs(),
           .records = [this] { return server_.records(); },
           .wait_for = [this](std::uint64_t place) { server_.wait_for(Keeping::standby, place); },
           .kept =
               [this](std::uint64_t through) {
                 server_.kept(Keeping::standby, through);
                 go_on_with_hand_over();
               },
           .make_known = [this](const auto& names) { make_known(names); },
           .changed = [this](const auto& places) { tell_places(places); }}),
      follower_(
          ports_.loop,
          {.say = callbacks_.say,
           .link_to = ports_.link_to,
           .begin_replica = [this](const auto& job,
                                   auto round) { return server_.begin_replica(job, round); },
           .add_to_replica = [this](const auto& job,
                                    auto bytes) { return server_.add_to_replica(job, bytes); },
           .replica_is_whole = [this](const auto& job) { server_.replica_is_whole(job); },
           .end_replica = [this](const auto& job) { server_.end_replica(job); },
           .end_replicas = [this] { server_.end_replicas({}); },
           .heard = [this](const auto& leads, const auto& there) { heard_leader(leads, there); },
           .is_said_to_lead = [this](std::uint64_t epoch) { lead_again(epoch); },
           .caught_up = [this] { caught_up(); },
           .take_over = [this](std::uint64_t epoch) { take_over(epoch); },
           .lost = [this](const std::string& reason,
                          Duration silence) { lost_leader(reason, silence); }}),
      alarm_(ports_.loop.make_alarm()),
      asked_alarm_(ports_.loop.make_alarm()),
      silence_alarm_(ports_.loop.make_alarm()) {}

DaemonSet::~DaemonSet() = default;

Result<void> DaemonSet::start() {
  if (options_.etcd) return start_contest();
  if (!options_.standby_of.empty()) {
    follow_place("", options_.standby_of, 0);
    return {};
  }
  // Alone, until somebody wants to stand by.
  leads_ = true;
  leader_ = options_.name;
  leader_place_ = options_.place;
  epoch_ = own_epoch();
  note_leader(false);
  standbys_.begin(own_leads());
  return {};
}

// Where nobody judges epochs they only have to grow from one leader to the next.
std::uint64_t DaemonSet::own_epoch() const {
  return static_cast<std::uint64_t>(ports_.wall_now().time_since_epoch() /
                                    std::chrono::milliseconds(1));
}

Result<void> DaemonSet::start_contest() {
  auto keys = ContestKeys::make(options_.cluster);
  if (!keys) return failure("--cluster: " + keys.error().reason);
  ContestOptions options{.name = options_.name,
                         .card = options_.place,
                         .keys = *std::move(keys),
                         .endpoints = options_.etcd->endpoints,
                         .ttl = options_.etcd_lease,
                         .memory = memory_,
                         .leaves_nothing = options_.leaves_nothing};
  if (const auto why = impossible(options)) {
    const bool is_of_name = options.name.size() > bounds::contest_name_bytes_max;
    return failure(fmt::format("{}: {}", is_of_name ? "--name" : "--etcd", *why));
  }
  auto contest = ports_.contest(std::move(options), *options_.etcd,
                                [this](const contest::Action& action) { hear(action); });
  if (!contest) return failure("--etcd: " + contest.error().reason);
  contest_ = *std::move(contest);
  contest_->start();
  contest_->tell(contest::Enter{});
  return {};
}

Moment DaemonSet::moment() const {
  return {.now = ports_.loop.now(), .wall = ports_.wall_now()};
}

link::Follow DaemonSet::own_follow() const {
  return {.name = options_.name,
          .cluster = options_.cluster,
          .version = options_.version,
          .features = link::standby_features,
          .epoch = epoch_max_,
          .address = options_.place,
          .has_etcd = options_.etcd.has_value()};
}

link::Leads DaemonSet::own_leads() const {
  return {.name = options_.name,
          .cluster = options_.cluster,
          .version = options_.version,
          .features = link::standby_features,
          .epoch = epoch_,
          .has_etcd = options_.etcd.has_value()};
}

// --- what is kept --------------------------------------------------------------------------------

std::uint64_t DaemonSet::keep(const std::string& job, const std::string& record) {
  if (!leads_) return 0;
  // Whoever is about to lead hears of stores until then, and of their jobs as well.
  standbys_.keep(job, record);
  if (!contest_ || is_resigning_) return 0;
  contest_->tell(contest::Keep{job, record, ++last_number_});
  return waits_for_etcd() ? last_number_ : 0;
}

// Of a job that is over while nobody hears it, the next one has the record: its nodes will ask.
std::uint64_t DaemonSet::forget(const std::string& job) {
  if (!leads_ || is_resigning_) return 0;
  standbys_.forget(job);
  if (!contest_) return 0;
  contest_->tell(contest::Drop{job, ++last_number_});
  return waits_for_etcd() ? last_number_ : 0;
}

// --- it leads ------------------------------------------------------------------------------------

void DaemonSet::lead(std::uint64_t epoch) {
  leads_ = true;
  epoch_ = epoch;
  epoch_max_ = std::max(epoch_max_, epoch);
  leader_ = options_.name;
  leader_place_ = options_.place;
  server_.lead({epoch, {options_.place}, patience()});
  const bool has_all = recover_all();
  follower_.leave();
  follower_.release();
  own_records_.clear();
  found_ = {};
  expects_lead_ = false;
  standbys_.begin(own_leads());
  server_.let_in();
  note_leader(true);
  // Else as soon as it is written.
  if (has_all) keep_self(true);
  // It was asked to end while this was on its way.
  if (left_) leave(std::exchange(left_, {}));
}

void DaemonSet::stop_leading(const std::string& reason, bool is_planned) {
  if (!std::exchange(leads_, false)) return;
  watch_.lost(ports_.loop.now(), reason);
  // It may be in the middle of what it has decided: nobody hears the rest.
  server_.speak_until(ports_.loop.now());
  ports_.loop.soon([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && !leads_) server_.speak_until({});
  });
  own_records_ = server_.follow({.reason = reason,
                                 .address = host_of_place(heir_place_),
                                 .port = port_of_place(heir_place_),
                                 .is_planned = is_planned});
  has_led_ = true;
  server_.kept(Keeping::etcd, last_number_);
  standbys_.end(reason);
  published_.clear();
  leader_.clear();
  leader_place_.clear();
  heir_.clear();
  heir_place_.clear();
  heir_is_told_ = is_mute_ = false;
  unknown_names_.clear();
}

void DaemonSet::tell_places(const std::vector<std::string>& standbys) {
  std::vector<std::string> places = {options_.place};
  places.insert(places.end(), standbys.begin(), standbys.end());
  if (contest_ || server_.epoch()) return server_.change_members(places);
  // The first that stands by for one that was alone.
  if (places.size() > 1) server_.lead({epoch_, places, patience()});
}

// How long workers live on while nobody leads: no time is needed where the lead is only ever handed
// over.
Duration DaemonSet::patience() const {
  if (!contest_) return {};
  return bounds::turn_patience + bounds::turn_patience_more(options_.etcd_lease);
}

bool DaemonSet::is_of_this_cluster(const link::Follow& follow) const {
  return follow.cluster == options_.cluster && follow.has_etcd == options_.etcd.has_value();
}

void DaemonSet::adopt(const std::shared_ptr<LinkEnd>& channel, const link::Follow& follow,
                      const PeerAddress& peer, const std::string& owner) {
  std::string reason;
  // It was sent to a place of which it did not know that it is its own.
  if (follow.name == options_.name) {
    channel->hang_up("it is itself");
    if (const auto epoch = follower_.sent_for()) lead_again(*epoch);
    return;
  }
  if (!callbacks_.sees_all(owner)) {
    reason = fmt::format(
        "it holds a secret of \"{}\", who may not have everybody's jobs: whoever "
        "stands by needs the one of \"{}\", or of the one owner there is",
        owner, admin_name);
  } else if (follow.address == options_.place) {
    reason = fmt::format(
        "\"{}\" says that it is met at {}, and so is this one: give each its own --advertise",
        called(follow.name), follow.address);
  } else if (leads_ && is_of_this_cluster(follow) && follow.epoch > epoch_) {
    // What etcd says is not overruled by anybody.
    if (!contest_) epoch_max_ = std::max(epoch_max_, follow.epoch);
    reason = fmt::format(
        "it has heard of epoch {}, and this one leads in epoch {}: another one leads since",
        follow.epoch, epoch_);
  } else if (!leads_) {
    // Of one that it only looks for it knows nothing.
    const std::string place = leader_.empty() ? std::string() : leader_place_;
    channel->send(link::NotLeading{.reason = "this cpprund does not lead",
                                   .address = host_of_place(place),
                                   .port = port_of_place(place),
                                   .epoch = epoch_});
    return channel->hang_up("it does not lead");
  }
  if (reason.empty()) return standbys_.adopt(channel, follow);
  callbacks_.say(LogLevel::warning,
                 fmt::format("refused a standby ({}): {}", peer.host_text(), reason));
  channel->send(link::Refused{reason});
  channel->hang_up(reason);
}

// --- another one leads ---------------------------------------------------------------------------

void DaemonSet::follow_place(const std::string& name, const std::string& place,
                             std::uint64_t epoch) {
  const auto parsed = parse_place(place);
  if (!parsed) {
    callbacks_.say(LogLevel::error,
                   fmt::format("the place of the cpprund that leads {}", parsed.error().reason));
    return;
  }
  stop_leading(fmt::format("\"{}\" leads in epoch {}", called(name), epoch));
  leader_ = name;
  leader_place_ = place;
  (void)server_.follow({name.empty() ? fmt::format("the one at {} leads", place)
                                     : fmt::format("\"{}\" leads", called(name)),
                        parsed->host, parsed->port});
  follower_.follow(parsed->host, parsed->port, own_follow());
}

// It is heard by its own word that another one leads: what this one had is of no use any more.
void DaemonSet::heard_leader(const link::Leads& leads, const Place& there) {
  epoch_max_ = std::max(epoch_max_, leads.epoch);
  epoch_ = leads.epoch;
  leader_ = leads.name;
  if (!contest_) leader_place_ = to_string(there);
  (void)server_.follow({fmt::format("\"{}\" leads", called(leader_)), there.host, there.port});
  own_records_.clear();
  has_led_ = false;
  callbacks_.forget_own();
  keep_self(false);
  note_leader(false);
}

// Nobody knows yet whether it still leads; whoever asks may look there.
void DaemonSet::lost_leader(const std::string& reason, Duration silence) {
  watch_.lost(ports_.loop.now() - silence, "its link is lost: " + reason);
  callbacks_.say(LogLevel::warning, fmt::format("the link to \"{}\", which leads, is lost: {}",
                                                called(leader_), reason));
  // It may have been killed, and its guard resigns for it in this moment.
  if (contest_ && silence == Duration{}) contest_->tell(contest::Attend{.is_imminent = true});
  if (leads_ || expects_lead_) return;
  (void)server_.follow({with_silence(fmt::format("\"{}\" led, and is not heard any more: {}",
                                                 called(leader_), reason)),
                        host_of_place(leader_place_), port_of_place(leader_place_)});
}

void DaemonSet::keep_self(bool has_all) {
  if (contest_) callbacks_.keep_self(memory_, has_all);
}

void DaemonSet::caught_up() {
  const auto& records = follower_.records();
  const std::size_t jobs = records.size() - records.count(hosts_record_name);
  callbacks_.say(LogLevel::info, fmt::format("stands by for \"{}\" (epoch {}), with {} job{}",
                                             called(leader_), epoch_, jobs, jobs == 1 ? "" : "s"));
}

// --- for whoever looks ---------------------------------------------------------------------------

void DaemonSet::note_leader(bool is_won) {
  const auto change = watch_.leads(moment(), {.name = std::string(called(leader_)),
                                              .place = leader_place_,
                                              .epoch = epoch_,
                                              .is_won = is_won});
  if (change) callbacks_.leader_changed(*change);
  if (!asked_) return;
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(ports_.loop.now() - asked_->muted);
  const bool is_heir = called(leader_) == called(asked_->heir);
  answer_asked(is_heir ? Result<std::string>(fmt::format(
                             "\"{}\" at {} leads, in epoch {}; nobody was answered for at most "
                             "{} ms",
                             called(leader_), leader_place_, epoch_, waited.count() + 1))
                       : failure(fmt::format("\"{}\" at {} leads, and not \"{}\"", called(leader_),
                                             leader_place_, called(asked_->heir))));
}

DaemonSnapshot DaemonSet::seen() const {
  DaemonSnapshot seen{.name = std::string(called(options_.name)),
                      .place = options_.place,
                      .version = options_.version,
                      .has_etcd = contest_ != nullptr,
                      .leads = leads_,
                      .epoch = epoch_,
                      .since = watch_.since(),
                      .leader = std::string(called(leader_)),
                      .leader_place = leader_place_,
                      .is_in_sync = !leads_ && follower_.is_whole(),
                      .is_left_behind = is_left_behind_,
                      .standbys = standbys_.seen(),
                      .trouble = trouble_.text(),
                      .changes = watch_.changes(),
                      .last_change = watch_.last()};
  for (StandbySnapshot& each : seen.standbys) each.name = called(each.name);
  return seen;
}

}  // namespace cpprun
