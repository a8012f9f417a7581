// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/standbys.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/daemon/io/standby.h"
#include "rendezvous/daemon/member_name.h"

namespace cpprun {

Standbys::Standbys(EventLoop loop, Callbacks callbacks)
    : loop_(std::move(loop)), callbacks_(std::move(callbacks)), alarm_(loop_.make_alarm()) {}

Standbys::~Standbys() {
  end("this cpprund ends");
}

void Standbys::begin(const link::Leads& own) {
  own_ = own;
  is_begun_ = true;
  asked_names_ = known_names_ = {own_.name};
  asked_at_.reset();
  may_lead_ = {own_.name};
  beat();
}

void Standbys::end(const std::string& reason) {
  is_begun_ = false;
  alarm_->call_off();
  // One of them may be what has brought us here: they go a moment later.
  auto gone = std::make_shared<decltype(standbys_)>(std::exchange(standbys_, {}));
  for (const auto& [name, standby] : *gone) standby->leave(reason);
  if (!gone->empty()) loop_.soon([gone = std::move(gone)] {});
  asked_names_.clear();
  known_names_.clear();
  may_lead_.clear();
}

void Standbys::adopt(const std::shared_ptr<LinkEnd>& channel, const link::Follow& follow) {
  const auto refuse = [&](const std::string& reason) {
    callbacks_.say(LogLevel::warning,
                   fmt::format("the cpprund \"{}\" at {} is not taken as a standby: {}",
                               called(follow.name), follow.address, reason));
    channel->send(link::Refused{reason});
    channel->hang_up(reason);
  };
  if (!is_begun_) return refuse("this cpprund does not lead");
  if (called(follow.name) == called(own_.name)) {
    return refuse(fmt::format("this one is called \"{}\" as well: give each its own --name",
                              called(follow.name)));
  }
  if (follow.cluster != own_.cluster) {
    return refuse(
        fmt::format("it is of the cluster \"{}\", and this one of \"{}\": all of a "
                    "cluster name the same etcd and the same --cluster",
                    follow.cluster, own_.cluster));
  }
  // It would lead beside whoever wins there, or be told to lead and never win.
  if (follow.has_etcd != own_.has_etcd) {
    return refuse(own_.has_etcd
                      ? "etcd says who leads here, and it does not ask it: start it with the same "
                        "--etcd and --cluster, and without --standby-of"
                      : "it asks etcd who leads, and this one does not: start both with the same "
                        "--etcd and --cluster, or neither with --etcd");
  }
  if ((follow.features & link::standby_features) != link::standby_features) {
    return refuse(
        fmt::format("cpprund {} cannot keep what cpprund {} has to be kept: upgrade it "
                    "first, then this one",
                    follow.version, own_.version));
  }
  const auto before = std::ranges::find_if(
      standbys_, [&](const auto& each) { return called(each.first) == called(follow.name); });
  // Another life of it. The one before may be gone unheard: then it is not here any more when this
  // one asks again.
  if (before != standbys_.end() && before->first != follow.name) {
    return refuse(
        fmt::format("one that is called \"{}\" stands by already, at {}: give each its own --name",
                    called(follow.name), before->second->who().address));
  }
  const auto twin = std::ranges::find_if(standbys_, [&](const auto& each) {
    return each.second->who().address == follow.address && each.first != follow.name;
  });
  if (twin != standbys_.end()) {
    return refuse(
        fmt::format("\"{}\" says that it is met there as well: give each its own --advertise",
                    called(twin->first)));
  }
  if (before != standbys_.end()) {
    ended(*before->second, "it has come anew");
  } else if (standbys_.size() >= callbacks_.standbys_max) {
    const std::string reason = fmt::format("{} stand by already, the limit", standbys_.size());
    channel->send(link::Refused{reason});
    return channel->hang_up(reason);
  }
  auto standby = std::make_unique<Standby>(*this, channel, follow);
  Standby& its = *(standbys_[follow.name] = std::move(standby));
  callbacks_.say(LogLevel::info, fmt::format("\"{}\" at {} is about to stand by (cpprund {})",
                                             called(follow.name), follow.address, follow.version));
  its.begin();
  look_at_names();
}

// From within its own callback, too: it goes a moment later.
void Standbys::ended(Standby& standby, const std::string& reason) {
  const auto found = standbys_.extract(standby.who().name);
  if (found.empty() || found.mapped().get() != &standby) return;
  const bool was_in_sync =
      std::ranges::find(known_names_, standby.who().name) != known_names_.end();
  callbacks_.say(
      was_in_sync ? LogLevel::warning : LogLevel::info,
      fmt::format("\"{}\" does not stand by any more: {}", called(standby.who().name), reason));
  standby.leave(reason);
  // It is told nothing more that could be waited for, and may lead until it is known that it must
  // not.
  if (may_lead_.contains(standby.who().name)) callbacks_.wait_for(next_place());
  loop_.soon([gone = std::shared_ptr<Standby>(std::move(found.mapped()))] {});
  look_at_names();
  look_at_places();
}

// It would hold up all jobs: it is told everything still, and is not to lead until it has it.
void Standbys::no_longer_wait_for(Standby& standby) {
  callbacks_.say(
      LogLevel::warning,
      fmt::format(
          "\"{}\" has been {} bytes behind for {} s and is no longer waited for: it would not "
          "lead before it has caught up (is the network between them fast enough?)",
          called(standby.who().name), standby.bytes_behind(),
          std::chrono::duration<double>(bounds::standby_silence).count()));
  standby.fall_behind();
  if (may_lead_.contains(standby.who().name)) callbacks_.wait_for(next_place());
  look_at_names();
  look_at_places();
}

// --- who is in sync ------------------------------------------------------------------------------

// Those that are to be known: all that have been told everything there was, and have it.
void Standbys::look_at_names() {
  if (!is_begun_) return;
  std::vector<std::string> names = {own_.name};
  for (const auto& [name, standby] : standbys_) {
    if (standby->is_caught_up()) names.push_back(name);
  }
  if (names == asked_names_) return;
  asked_names_ = names;
  asked_at_ = loop_.now();
  may_lead_.insert(names.begin(), names.end());
  callbacks_.make_known(names);
}

void Standbys::known(const std::vector<std::string>& names) {
  if (!is_begun_) return;
  for (const std::string& name : names) {
    if (name == own_.name || std::ranges::find(known_names_, name) != known_names_.end()) continue;
    callbacks_.say(LogLevel::info, fmt::format("\"{}\" stands by: it would lead if this cpprund "
                                               "were lost",
                                               called(name)));
  }
  known_names_ = names;
  if (names == asked_names_) {
    may_lead_ = {names.begin(), names.end()};
    asked_at_.reset();
  }
  std::vector<std::string> places;
  for (const auto& [name, standby] : standbys_) {
    if (std::ranges::find(names, name) != names.end()) places.push_back(standby->who().address);
  }
  callbacks_.changed(places);
  look_at_places();
}

// Nobody is told what somebody lacks who could lead: who is known to be in sync, or soon may be,
// and is gone or has come anew, too, until that is known.
void Standbys::look_at_places() {
  if (!is_begun_) return;
  if (!who_holds_up().empty()) return;
  std::uint64_t through = place_;
  for (const auto& [name, standby] : standbys_) {
    if (standby->has_been_told()) through = std::min(through, standby->has_through(place_));
  }
  callbacks_.kept(through);
}

// Who may lead and has not what anybody was told.
std::string Standbys::who_holds_up() const {
  for (const std::string& name : may_lead_) {
    if (name == own_.name) continue;
    const auto standby = standbys_.find(name);
    if (standby == standbys_.end() || !standby->second->is_caught_up()) return name;
  }
  return {};
}

// All jobs wait meanwhile, and whoever reads the log wants to know for what.
void Standbys::look_at_what_is_asked() {
  if (!asked_at_ || loop_.now() - *asked_at_ <= bounds::standby_silence) return;
  asked_at_.reset();
  const std::string name = who_holds_up();
  if (name.empty()) return;
  callbacks_.say(
      LogLevel::error,
      fmt::format("no node is told anything: \"{}\" is gone, and etcd has not recorded yet that "
                  "it must not lead: start that cpprund again, or make etcd take changes",
                  called(name)));
}

// --- what they are told --------------------------------------------------------------------------

void Standbys::keep(const std::string& job, const std::string& record) {
  for (const auto& [name, standby] : standbys_) standby->keep(job, record);
}

void Standbys::forget(const std::string& job) {
  for (const auto& [name, standby] : standbys_) standby->forget(job);
}

std::vector<StandbySnapshot> Standbys::seen() const {
  std::vector<StandbySnapshot> all;
  for (const auto& [name, standby] : standbys_) {
    const bool is_known = std::ranges::find(known_names_, name) != known_names_.end();
    all.push_back({.name = name,
                   .place = standby->who().address,
                   .version = standby->who().version,
                   .is_in_sync = is_known,
                   .bytes_behind = standby->bytes_behind()});
  }
  return all;
}

bool Standbys::is_ready(const std::string& name) const {
  const auto found = standbys_.find(name);
  return found != standbys_.end() && found->second->has_everything();
}

void Standbys::hand_over(const std::string& name) {
  if (const auto found = standbys_.find(name); found != standbys_.end()) {
    found->second->send(link::TakeOver{own_.epoch});
  }
}

// What the standbys have sent meanwhile is not read yet. The leader's own lease counts on.
void Standbys::pass_over_sleep() {
  const TimePoint now = loop_.now();
  const Duration slept = overslept(beat_due_, now, bounds::standby_beat);
  if (slept == Duration{}) return;
  for (const auto& [name, standby] : standbys_) standby->pass_over_sleep(slept);
  if (asked_at_) asked_at_ = without_sleep(*asked_at_, now, slept);
}

// Whoever says nothing for so long may be gone, and everybody waits for it; and as long as that for
// whoever has not heard what all wait for.
void Standbys::beat() {
  beat_due_ = loop_.now() + bounds::standby_beat;
  alarm_->ring_in(bounds::standby_beat, [this] {
    if (!is_begun_) return;
    pass_over_sleep();
    std::vector<Standby*> silent;
    std::vector<Standby*> swamped;
    std::vector<Standby*> slow;
    for (const auto& [name, standby] : standbys_) {
      if (loop_.now() - standby->heard() > bounds::standby_silence) {
        silent.push_back(standby.get());
      } else if (standby->is_swamped()) {
        swamped.push_back(standby.get());
      } else if (standby->has_been_told() && standby->lag() > bounds::standby_silence) {
        slow.push_back(standby.get());
      }
    }
    // Each may bring the end of all, which stay in memory until this turn is over.
    for (Standby* const each : silent) {
      ended(*each, fmt::format("it has said nothing for {} s",
                               std::chrono::duration<double>(bounds::standby_silence).count()));
    }
    for (Standby* const each : swamped) {
      ended(*each, fmt::format("{} bytes wait for it, and the network between them takes less than "
                               "the stores are told: it is to begin anew",
                               each->bytes_behind()));
    }
    for (Standby* const each : slow) {
      if (is_begun_) no_longer_wait_for(*each);
    }
    if (!is_begun_) return;
    look_at_what_is_asked();
    beat();
  });
}

}  // namespace cpprun
