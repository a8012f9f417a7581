// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/replication_leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/daemon/bounds.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

// A standby and its link. Frames that do not fit into the socket are queued here.
class ReplicationLeader::ReplicationSession : public LogKeeper {
 public:
  ReplicationSession(ReplicationLeader& all, std::shared_ptr<LinkEnd> channel,
                     const link::Follow& follow);

  void begin();
  void leave(const std::string& reason);

  const link::Follow& who() const { return follow_; }
  bool has_been_told() const { return caught_up_at_ > 0; }
  // It has acknowledged everything that existed when it caught up.
  bool is_caught_up() const { return caught_up_at_ > 0 && has_ >= caught_up_at_; }
  // The last place, at most `place`, through which it lacks nothing. Records sent only to other
  // standbys do not count.
  std::uint64_t has_through(std::uint64_t place) const {
    return sent_.empty() ? place : sent_.front().place - 1;
  }
  bool has_everything() const { return is_caught_up() && has_ >= last_; }
  std::uint64_t bytes_behind() const { return bytes_told_ - bytes_had_; }
  // It is still receiving the initial state, and its link cannot keep up.
  bool is_swamped() const;
  TimePoint heard() const { return heard_; }
  // This process was suspended for `slept`; that time does not count.
  void pass_over_sleep(Duration slept);
  // How long the oldest unacknowledged record has been outstanding.
  Duration lag() const;
  // Replies do not wait for this standby until it has nearly caught up again.
  void fall_behind();
  void send(const link::Message& message) { channel_->send(message); }

  void keep(const std::string& job, const std::string& record);
  void forget(const std::string& job) { tell({.kind = Kind::forgotten, .job = job}); }

  void begin_log(const std::string& job, RoundNumber round) override;
  void add_log(const std::string& job, std::string_view bytes) override;
  void add_image(const std::string& job, std::string_view bytes) override { add_log(job, bytes); }
  bool has_room_for_image() override;
  void log_is_whole(const std::string& job) override;
  bool go_on_log(const std::string&) override { return false; }
  void end_log(const std::string& job) override;

 private:
  using Kind = link::StandbyRecord::Kind;

  void look_soon();
  void look_whether_all_is_told();
  void tell(link::StandbyRecord record);
  void write();
  void come_near();
  std::string hear(std::string_view frame);

  ReplicationLeader& all_;
  std::shared_ptr<LinkEnd> channel_;
  const link::Follow follow_;
  TimePoint heard_;
  std::deque<std::string> waiting_;
  std::size_t bytes_waiting_ = 0;
  bool is_asked_for_room_ = false;  // has_room_for_image() last returned false
  struct Sent {
    std::uint64_t place = 0;
    std::uint64_t bytes = 0;  // total bytes sent, up to and including this record
    TimePoint at{};
  };
  std::deque<Sent> sent_;  // not yet acknowledged
  std::uint64_t last_ = 0;
  std::uint64_t has_ = 0;
  // 0: it has not received the whole state, or is too slow to be waited for.
  std::uint64_t caught_up_at_ = 0;
  bool is_slow_ = false;
  std::uint64_t bytes_told_ = 0;
  std::uint64_t bytes_had_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

ReplicationLeader::ReplicationLeader(EventLoop loop, ReplicatedCoordinator& server,
                                     Callbacks callbacks)
    : loop_(std::move(loop)),
      server_(server),
      callbacks_(std::move(callbacks)),
      alarm_(loop_.make_alarm()) {}

ReplicationLeader::~ReplicationLeader() {
  end("this cpprund exits");
}

void ReplicationLeader::begin(const link::Leads& own) {
  own_ = own;
  is_begun_ = true;
  asked_names_ = known_names_ = {own_.name};
  asked_at_.reset();
  may_lead_ = {own_.name};
  beat();
}

void ReplicationLeader::end(const std::string& reason) {
  is_begun_ = false;
  alarm_->call_off();
  // This may run within a callback of a standby, so they are destroyed later.
  auto gone = std::make_shared<decltype(standbys_)>(std::exchange(standbys_, {}));
  for (const auto& [name, standby] : *gone) standby->leave(reason);
  if (!gone->empty()) loop_.soon([gone = std::move(gone)] {});
  asked_names_.clear();
  known_names_.clear();
  may_lead_.clear();
}

void ReplicationLeader::adopt(const std::shared_ptr<LinkEnd>& channel, const link::Follow& follow) {
  const auto refuse = [&](const std::string& reason) {
    callbacks_.say(LogLevel::warning, fmt::format("rejected standby \"{}\" at {}: {}",
                                                  called(follow.name), follow.address, reason));
    channel->send(link::Refused{reason});
    channel->hang_up(reason);
  };
  if (!is_begun_) return refuse("this cpprund is not the leader");
  if (called(follow.name) == called(own_.name)) {
    return refuse(fmt::format("the leader is called \"{}\" too; give each cpprund its own --name",
                              called(follow.name)));
  }
  if (follow.cluster != own_.cluster) {
    return refuse(
        fmt::format("the standby belongs to cluster \"{}\", the leader to \"{}\"; start both with "
                    "the same --etcd and --cluster",
                    follow.cluster, own_.cluster));
  }
  // A cpprund of an earlier build, which would lead beside the leader that etcd elects.
  if (!follow.has_etcd) {
    return refuse(
        "the standby does not use --etcd; start it with the same --etcd and --cluster as the "
        "leader");
  }
  if ((follow.features & link::standby_features) != link::standby_features) {
    return refuse(
        fmt::format("the standby's cpprund {} is too old for the leader's cpprund {}; upgrade the "
                    "standby first, then the leader",
                    follow.version, own_.version));
  }
  const auto before = std::ranges::find_if(
      standbys_, [&](const auto& each) { return called(each.first) == called(follow.name); });
  // Another life of that member. If the earlier life is gone without notice, it will have been
  // removed by the time this one asks again.
  if (before != standbys_.end() && before->first != follow.name) {
    return refuse(
        fmt::format("another standby is called \"{}\" too, at {}; give each cpprund its own --name",
                    called(follow.name), before->second->who().address));
  }
  const auto twin = std::ranges::find_if(standbys_, [&](const auto& each) {
    return each.second->who().address == follow.address && each.first != follow.name;
  });
  if (twin != standbys_.end()) {
    return refuse(fmt::format(
        "standby \"{}\" advertises the same address; give each cpprund its own --advertise",
        called(twin->first)));
  }
  if (before != standbys_.end()) {
    ended(*before->second, "it reconnected");
  } else if (standbys_.size() >= callbacks_.standbys_max) {
    const std::string reason =
        fmt::format("the leader has {} standbys, the maximum", standbys_.size());
    channel->send(link::Refused{reason});
    return channel->hang_up(reason);
  }
  auto standby = std::make_unique<ReplicationSession>(*this, channel, follow);
  ReplicationSession& its = *(standbys_[follow.name] = std::move(standby));
  callbacks_.say(LogLevel::info, fmt::format("\"{}\" at {} is becoming a standby (cpprund {})",
                                             called(follow.name), follow.address, follow.version));
  its.begin();
  look_at_names();
}

// May run within a callback of the standby, so it is destroyed later.
void ReplicationLeader::ended(ReplicationSession& standby, const std::string& reason) {
  const auto found = standbys_.extract(standby.who().name);
  if (found.empty() || found.mapped().get() != &standby) return;
  const bool was_in_sync =
      std::ranges::find(known_names_, standby.who().name) != known_names_.end();
  callbacks_.say(was_in_sync ? LogLevel::warning : LogLevel::info,
                 fmt::format("lost standby \"{}\": {}", called(standby.who().name), reason));
  standby.leave(reason);
  // Nothing further is sent to it that replies could wait for. It may still become leader until
  // its exclusion is published, so replies wait for that.
  if (may_lead_.contains(standby.who().name)) wait_for(next_sequence());
  loop_.soon([gone = std::shared_ptr<ReplicationSession>(std::move(found.mapped()))] {});
  look_at_names();
  compare_addresses();
}

// It would delay all jobs. It still receives everything, but must not lead until it has caught up.
void ReplicationLeader::no_longer_wait_for(ReplicationSession& standby) {
  callbacks_.say(
      LogLevel::warning,
      fmt::format("standby \"{}\" is out of sync: {} bytes behind for {} s; it cannot become the "
                  "leader until it has caught up; check the network between the two",
                  called(standby.who().name), standby.bytes_behind(),
                  std::chrono::duration<double>(bounds::standby_silence).count()));
  standby.fall_behind();
  if (may_lead_.contains(standby.who().name)) wait_for(next_sequence());
  look_at_names();
  compare_addresses();
}

// --- who is in sync ------------------------------------------------------------------------------

// Publishes the names of all standbys that have received and acknowledged the whole state.
void ReplicationLeader::look_at_names() {
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

void ReplicationLeader::known(const std::vector<std::string>& names) {
  if (!is_begun_) return;
  for (const std::string& name : names) {
    if (name == own_.name || std::ranges::find(known_names_, name) != known_names_.end()) continue;
    callbacks_.say(
        LogLevel::info,
        fmt::format("standby \"{}\" is in sync and can become the leader", called(name)));
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
  compare_addresses();
}

// No reply may be sent that a possible leader lacks the state for. Possible leaders are all members
// that are published as in sync or about to be, even if they left or reconnected, until the change
// is published.
void ReplicationLeader::compare_addresses() {
  if (!is_begun_) return;
  if (!who_holds_up().empty()) return;
  std::uint64_t through = last_sequence_;
  for (const auto& [name, standby] : standbys_) {
    if (standby->has_been_told()) through = std::min(through, standby->has_through(last_sequence_));
  }
  server_.kept(CommitSource::log, through);
  callbacks_.replicated();
}

// A member that may become leader but lacks state that replies depend on; empty if there is none.
std::string ReplicationLeader::who_holds_up() const {
  for (const std::string& name : may_lead_) {
    if (name == own_.name) continue;
    const auto standby = standbys_.find(name);
    if (standby == standbys_.end() || !standby->second->is_caught_up()) return name;
  }
  return {};
}

// All jobs wait meanwhile, so the log has to tell why.
void ReplicationLeader::look_at_what_is_asked() {
  if (!asked_at_ || loop_.now() - *asked_at_ <= bounds::standby_silence) return;
  asked_at_.reset();
  const std::string name = who_holds_up();
  if (name.empty()) return;
  callbacks_.say(
      LogLevel::error,
      fmt::format(
          "replies to all nodes are paused: standby \"{}\" is lost, and etcd still lists it as in "
          "sync; restart that standby, or make etcd accept writes",
          called(name)));
}

// --- replication to the standbys -----------------------------------------------------------------

void ReplicationLeader::keep(const std::string& job, const std::string& record) {
  for (const auto& [name, standby] : standbys_) standby->keep(job, record);
}

void ReplicationLeader::forget(const std::string& job) {
  for (const auto& [name, standby] : standbys_) standby->forget(job);
}

std::vector<StandbySnapshot> ReplicationLeader::seen() const {
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

bool ReplicationLeader::is_ready(const std::string& name) const {
  const auto found = standbys_.find(name);
  return found != standbys_.end() && found->second->has_everything();
}

void ReplicationLeader::hand_over(const std::string& name) {
  if (const auto found = standbys_.find(name); found != standbys_.end()) {
    found->second->send(link::TakeOver{own_.epoch});
  }
}

// Messages that the standbys sent meanwhile have not been read yet. The leader's own lease is not
// extended.
void ReplicationLeader::pass_over_sleep() {
  const TimePoint now = loop_.now();
  const Duration slept = overslept(beat_due_, now, bounds::standby_beat);
  if (slept == Duration{}) return;
  for (const auto& [name, standby] : standbys_) standby->pass_over_sleep(slept);
  if (asked_at_) asked_at_ = without_sleep(*asked_at_, now, slept);
}

// Every job waits for a standby, so a standby that sends nothing for standby_silence is dropped,
// and a standby that acknowledges nothing for that long is no longer waited for.
void ReplicationLeader::beat() {
  beat_due_ = loop_.now() + bounds::standby_beat;
  alarm_->ring_in(bounds::standby_beat, [this] {
    if (!is_begun_) return;
    pass_over_sleep();
    std::vector<ReplicationSession*> silent;
    std::vector<ReplicationSession*> swamped;
    std::vector<ReplicationSession*> slow;
    for (const auto& [name, standby] : standbys_) {
      if (loop_.now() - standby->heard() > bounds::standby_silence) {
        silent.push_back(standby.get());
      } else if (standby->is_swamped()) {
        swamped.push_back(standby.get());
      } else if (standby->has_been_told() && standby->lag() > bounds::standby_silence) {
        slow.push_back(standby.get());
      }
    }
    // Each call may end replication for all standbys. They stay in memory until this turn is over.
    for (ReplicationSession* const each : silent) {
      ended(*each, fmt::format("no message for {} s",
                               std::chrono::duration<double>(bounds::standby_silence).count()));
    }
    for (ReplicationSession* const each : swamped) {
      ended(*each,
            fmt::format("{} bytes behind, because the stores change faster than the network can "
                        "send the changes; the standby reconnects and resynchronizes from "
                        "the beginning",
                        each->bytes_behind()));
    }
    for (ReplicationSession* const each : slow) {
      if (is_begun_) no_longer_wait_for(*each);
    }
    if (!is_begun_) return;
    look_at_what_is_asked();
    beat();
  });
}

ReplicationLeader::ReplicationSession::ReplicationSession(ReplicationLeader& all,
                                                          std::shared_ptr<LinkEnd> channel,
                                                          const link::Follow& follow)
    : all_(all), channel_(std::move(channel)), follow_(follow), heard_(all.loop_.now()) {}

void ReplicationLeader::ReplicationSession::begin() {
  channel_->listen({.message =
                        [this](const link::Message& message) {
                          heard_ = all_.loop_.now();
                          if (const auto* const beat = std::get_if<link::Heartbeat>(&message)) {
                            channel_->send(*beat);
                          }
                        },
                    .streams = [this](std::string_view frame) { return hear(frame); },
                    .room = [this] { write(); },
                    .closed = [this](const std::string& reason) { all_.ended(*this, reason); }});
  channel_->send(all_.own_);
  for (const auto& [job, record] : all_.server_.records()) keep(job, record);
  all_.server_.logs().attach(*this);
  look_whether_all_is_told();
}

void ReplicationLeader::ReplicationSession::leave(const std::string& reason) {
  all_.server_.logs().detach(*this);
  channel_->forget();
  channel_->hang_up(reason);
}

Duration ReplicationLeader::ReplicationSession::lag() const {
  return sent_.empty() ? Duration{} : Duration(all_.loop_.now() - sent_.front().at);
}

void ReplicationLeader::ReplicationSession::pass_over_sleep(Duration slept) {
  const TimePoint now = all_.loop_.now();
  heard_ = without_sleep(heard_, now, slept);
  for (Sent& each : sent_) each.at = without_sleep(each.at, now, slept);
}

bool ReplicationLeader::ReplicationSession::is_swamped() const {
  return caught_up_at_ == 0 && bytes_waiting_ > bounds::standby_bytes_behind_max;
}

void ReplicationLeader::ReplicationSession::fall_behind() {
  is_slow_ = true;
  caught_up_at_ = 0;
}

void ReplicationLeader::ReplicationSession::keep(const std::string& job,
                                                 const std::string& record) {
  const std::size_t most = link::standby_frame_room(job);
  std::string_view rest = record;
  for (; rest.size() > most; rest.remove_prefix(most)) {
    tell({.kind = Kind::part, .job = job, .bytes = rest.substr(0, most)});
  }
  tell({.kind = Kind::record, .job = job, .bytes = rest});
}

void ReplicationLeader::ReplicationSession::begin_log(const std::string& job, RoundNumber round) {
  tell({.kind = Kind::log_begins, .round = round, .job = job});
}

void ReplicationLeader::ReplicationSession::add_log(const std::string& job,
                                                    std::string_view bytes) {
  const std::size_t most = link::standby_frame_room(job);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), most))) {
    tell({.kind = Kind::log, .job = job, .bytes = bytes.substr(0, most)});
  }
}

// Frames that do not fit into the socket are queued here. No client is served while an image waits
// for room, so the limit is generous.
bool ReplicationLeader::ReplicationSession::has_room_for_image() {
  is_asked_for_room_ = bytes_waiting_ > bounds::standby_bytes_waiting_max;
  return !is_asked_for_room_;
}

void ReplicationLeader::ReplicationSession::log_is_whole(const std::string& job) {
  tell({.kind = Kind::log_whole, .job = job});
  look_soon();
}

void ReplicationLeader::ReplicationSession::end_log(const std::string& job) {
  tell({.kind = Kind::log_ends, .job = job});
  look_soon();
}

// StoreLogs updates its own list only after the callback returns, so this checks later.
void ReplicationLeader::ReplicationSession::look_soon() {
  all_.loop_.soon([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) look_whether_all_is_told();
  });
}

void ReplicationLeader::ReplicationSession::look_whether_all_is_told() {
  if (is_slow_ || caught_up_at_ > 0 || !all_.server_.logs().is_whole_at(*this)) return;
  tell({.kind = Kind::caught_up});
  caught_up_at_ = last_;
  // From here on replies wait for its acknowledgements.
  all_.wait_for(last_);
}

void ReplicationLeader::ReplicationSession::tell(link::StandbyRecord record) {
  record.number = last_ = all_.next_sequence();
  std::string frame = link::standby_frame(record);
  bytes_told_ += frame.size();
  sent_.push_back({last_, bytes_told_, all_.loop_.now()});
  bytes_waiting_ += frame.size();
  waiting_.push_back(std::move(frame));
  if (caught_up_at_ > 0) all_.wait_for(last_);
  write();
}

void ReplicationLeader::ReplicationSession::write() {
  while (!waiting_.empty() && channel_->has_room()) {
    const std::string frame = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_waiting_ -= frame.size();
    channel_->send_bytes(frame);
  }
  if (is_asked_for_room_ && has_room_for_image()) all_.server_.logs().resume_images();
}

// It lacks only a little. Replies wait for it again once it has that too.
void ReplicationLeader::ReplicationSession::come_near() {
  is_slow_ = false;
  if (!all_.server_.logs().is_whole_at(*this)) return look_soon();
  caught_up_at_ = last_;
  all_.wait_for(last_);
}

std::string ReplicationLeader::ReplicationSession::hear(std::string_view frame) {
  heard_ = all_.loop_.now();
  const auto record = link::read_standby_frame(frame);
  if (!record) return record.error().reason;
  if (record->kind == Kind::renew) {
    all_.server_.logs().renew(*this, std::string(record->job));
    return {};
  }
  if (record->kind != Kind::has) return "sent a replication record that only the leader may send";
  if (record->number > last_) return "acknowledged a record that was never sent";
  has_ = std::max(has_, record->number);
  for (; !sent_.empty() && sent_.front().place <= has_; sent_.pop_front()) {
    bytes_had_ = sent_.front().bytes;
  }
  if (is_slow_ && lag() < bounds::standby_silence / 4) come_near();
  // This may be the acknowledgement that replies waited for. The callbacks may end this standby.
  all_.look_at_names();
  all_.compare_addresses();
  return {};
}

}  // namespace cpprun
