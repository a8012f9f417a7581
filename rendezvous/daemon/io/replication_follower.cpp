// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/replication_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/daemon/bounds.h"

namespace cpprun {

namespace {

using Kind = link::StandbyRecord::Kind;

constexpr std::chrono::milliseconds dial_pause(200);
// After a rejection, another standby may have to leave first.
constexpr std::chrono::milliseconds refused_pause(2000);
// The pause before the second image of a store whose replication failed. It more than doubles with
// each further image, up to the maximum.
constexpr std::chrono::milliseconds renew_pause(500);
constexpr std::chrono::milliseconds renew_pause_max(60'000);
// Size limit of a job's record, over all its parts.
constexpr std::size_t record_bytes_max = 64 * 1024 * 1024;

}  // namespace

ReplicationFollower::ReplicationFollower(EventLoop loop, ReplicatedCoordinator& server,
                                         Callbacks callbacks)
    : loop_(std::move(loop)),
      server_(server),
      callbacks_(std::move(callbacks)),
      alarm_(loop_.make_alarm()) {}

ReplicationFollower::~ReplicationFollower() = default;

// --- the link ------------------------------------------------------------------------------------

void ReplicationFollower::follow(const std::string& host, int port, const link::Follow& own) {
  own_ = own;
  if (at_ == Endpoint{host, port}) return;
  leave();
  at_ = {host, port};
  told_.clear();
  renewals_.clear();
  dial();
  tick();
}

void ReplicationFollower::leave() {
  alarm_->call_off();
  at_ = {};
  drop_link();
}

void ReplicationFollower::drop_link() {
  is_up_ = is_heard_ = false;
  if (client_ == nullptr) return;
  client_->hang_up();
  // This may run within a callback of the link, so the link is destroyed later.
  loop_.soon([old = std::shared_ptr<DialledLink>(std::move(client_))] {});
}

// Uses the current secrets, which may have changed since the last link.
void ReplicationFollower::dial() {
  drop_link();
  auto client =
      callbacks_.link_to(at_.host, at_.port,
                         {.up = [this](const std::string&) { came_up(); },
                          .message = [this](const link::Message& message) { hear(message); },
                          .streams = [this](std::string_view frame) { return hear_frame(frame); },
                          .room = {},
                          .down = [this](const std::string& reason) { went_down(reason); }});
  if (!client) return went_down("cannot open a link: " + client.error().reason);
  dial_at_ = TimePoint::max();
  client_ = *std::move(client);
  client_->dial_once();
}

void ReplicationFollower::came_up() {
  is_up_ = true;
  is_heard_ = false;
  heard_ = loop_.now();
  client_->send(own_);
}

void ReplicationFollower::went_down(const std::string& reason, Duration silence) {
  const bool was_heard = std::exchange(is_heard_, false);
  const bool is_refused = std::exchange(is_refused_, false);
  is_up_ = false;
  dial_at_ = loop_.now() + (is_refused ? refused_pause : dial_pause);
  if (!is_refused) {
    say_once(LogLevel::info,
             fmt::format("no contact with the cpprund at {}: {}", to_string(at_), reason));
  }
  if (was_heard) callbacks_.lost(reason, silence);
}

void ReplicationFollower::tick() {
  tick_due_ = loop_.now() + bounds::standby_beat;
  alarm_->ring_in(bounds::standby_beat, [this] {
    if (at_.host.empty()) return;
    const TimePoint now = loop_.now();
    heard_ = without_sleep(heard_, now, overslept(tick_due_, now, bounds::standby_beat));
    if (is_up_ && loop_.now() - heard_ > bounds::standby_silence) {
      client_->hang_up();
      went_down("no message for 1 s", bounds::standby_silence);
      if (at_.host.empty()) return;
    }
    if (is_up_) client_->send(link::Heartbeat{});
    if (!is_up_ && loop_.now() >= dial_at_) dial();
    ask_anew();
    tick();
  });
}

// --- messages from the leader --------------------------------------------------------------------

void ReplicationFollower::hear(const link::Message& message) {
  heard_ = loop_.now();
  if (const auto* const leads = std::get_if<link::Leads>(&message)) return begin_anew(*leads);
  if (const auto* const refused = std::get_if<link::Refused>(&message)) {
    say_once(LogLevel::info, fmt::format("the cpprund at {} rejected this standby: {}",
                                         to_string(at_), refused->reason));
    is_refused_ = true;
    return;
  }
  if (const auto* const take_over = std::get_if<link::TakeOver>(&message)) {
    if (is_whole_ && take_over->epoch == epoch_) callbacks_.take_over();
  }
}

// Data from before is obsolete.
void ReplicationFollower::begin_anew(const link::Leads& leads) {
  const auto refuse = [this](const std::string& reason) {
    say_once(LogLevel::warning,
             fmt::format("cannot be a standby of the cpprund at {}: {}", to_string(at_), reason));
    client_->hang_up();
    went_down(reason);
  };
  if (leads.epoch < own_.epoch) {
    return refuse(fmt::format("its epoch {} is older than epoch {} of another leader", leads.epoch,
                              own_.epoch));
  }
  if (leads.cluster != own_.cluster) {
    return refuse(
        fmt::format("the leader belongs to cluster \"{}\", this cpprund to \"{}\"; start both with "
                    "the same --etcd and --cluster",
                    leads.cluster, own_.cluster));
  }
  forget();
  epoch_ = leads.epoch;
  is_heard_ = true;
  told_.clear();
  callbacks_.heard(leads, at_);
}

// Every attempt finds the same problem, so it is logged once.
void ReplicationFollower::say_once(LogLevel level, const std::string& sentence) {
  constexpr std::size_t told_max = 16;
  if (told_.size() >= told_max) told_.clear();
  if (told_.insert(sentence).second) callbacks_.say(level, sentence);
}

void ReplicationFollower::forget() {
  release();
  server_.end_replicas({});
}

void ReplicationFollower::release() {
  is_whole_ = false;
  records_.clear();
  parts_.clear();
  has_ = 0;
}

std::string ReplicationFollower::hear_frame(std::string_view frame) {
  heard_ = loop_.now();
  if (!is_heard_) return "replication data before the leader's greeting";
  const auto record = link::read_standby_frame(frame);
  if (!record) return record.error().reason;
  if (record->number <= has_) return "a replication record was sent twice";
  if (const auto taken = take(*record); !taken) return taken.error().reason;
  has_ = record->number;
  if (!std::exchange(says_soon_, true)) {
    loop_.soon([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) say_what_it_has();
    });
  }
  return {};
}

Result<void> ReplicationFollower::take(const link::StandbyRecord& record) {
  const std::string job(record.job);
  const auto or_renew = [&](const Result<void>& done) {
    if (!done) cannot_follow(job, done.error().reason);
  };
  switch (record.kind) {
    case Kind::part:
    case Kind::record: {
      std::string& parts = parts_[job];
      if (parts.size() + record.bytes.size() > record_bytes_max) {
        return failure("the leader sent a record of more than 64 MiB");
      }
      parts.append(record.bytes);
      if (record.kind == Kind::part) return {};
      records_[job] = std::move(parts);
      parts_.erase(job);
      return {};
    }
    case Kind::forgotten:
      records_.erase(job);
      renewals_.erase(job);
      server_.end_replica(job);
      return {};
    case Kind::log_begins:
      if (const auto failed = renewals_.find(job); failed != renewals_.end()) {
        failed->second.is_wanted = false;
      }
      or_renew(server_.begin_replica(job, record.round));
      return {};
    case Kind::log:
      if (!cannot_be_followed(job)) or_renew(server_.add_to_replica(job, record.bytes));
      return {};
    case Kind::log_whole:
      if (!cannot_be_followed(job)) {
        renewals_.erase(job);
        server_.replica_is_whole(job);
      }
      return {};
    case Kind::log_ends:
      renewals_.erase(job);
      server_.end_replica(job);
      return {};
    case Kind::caught_up:
      is_whole_ = true;
      callbacks_.caught_up();
      return {};
    case Kind::has:
    case Kind::renew:
      break;
  }
  return failure("the leader sent a replication record of a kind that only standbys send");
}

// An image of a store is expensive. The first retry is immediate; further ones are spaced with
// exponential backoff.
void ReplicationFollower::cannot_follow(const std::string& job, const std::string& reason) {
  Renewal& renewal = renewals_[job];
  renewal.is_wanted = true;
  renewal.at = loop_.now() + renewal.pause;
  renewal.pause = std::min<Duration>(2 * renewal.pause + renew_pause, renew_pause_max);
  callbacks_.say(
      LogLevel::warning,
      fmt::format("job \"{}\": cannot replicate its store, requesting it again: {}", job, reason));
  ask_anew();
}

bool ReplicationFollower::cannot_be_followed(const std::string& job) const {
  const auto found = renewals_.find(job);
  return found != renewals_.end() && found->second.is_wanted;
}

void ReplicationFollower::ask_anew() {
  if (!is_up_ || !is_heard_) return;
  for (auto& [job, renewal] : renewals_) {
    if (!renewal.is_wanted || loop_.now() < renewal.at) continue;
    renewal.at = TimePoint::max();
    client_->send_bytes(link::standby_frame({.kind = Kind::renew, .job = job}));
  }
}

// Sends one acknowledgement for all records received in a turn.
void ReplicationFollower::say_what_it_has() {
  says_soon_ = false;
  if (is_up_ && is_heard_) {
    client_->send_bytes(link::standby_frame({.kind = Kind::has, .number = has_}));
  }
}

}  // namespace cpprun
