// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/standby.h"

#include <algorithm>
#include <utility>

#include "proto/bounds.h"

namespace cpprun {

Standbys::Standby::Standby(Standbys& all, std::shared_ptr<LinkEnd> channel,
                           const link::Follow& follow)
    : all_(all), channel_(std::move(channel)), follow_(follow), heard_(all.loop_.now()) {}

void Standbys::Standby::begin() {
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
  for (const auto& [job, record] : all_.callbacks_.records()) keep(job, record);
  all_.callbacks_.logs->attach(*this);
  look_whether_all_is_told();
}

void Standbys::Standby::leave(const std::string& reason) {
  all_.callbacks_.logs->detach(*this);
  channel_->forget();
  channel_->hang_up(reason);
}

Duration Standbys::Standby::lag() const {
  return sent_.empty() ? Duration{} : Duration(all_.loop_.now() - sent_.front().at);
}

void Standbys::Standby::pass_over_sleep(Duration slept) {
  const TimePoint now = all_.loop_.now();
  heard_ = without_sleep(heard_, now, slept);
  for (Sent& each : sent_) each.at = without_sleep(each.at, now, slept);
}

bool Standbys::Standby::is_swamped() const {
  return caught_up_at_ == 0 && bytes_waiting_ > bounds::standby_bytes_behind_max;
}

void Standbys::Standby::fall_behind() {
  is_slow_ = true;
  caught_up_at_ = 0;
}

void Standbys::Standby::keep(const std::string& job, const std::string& record) {
  const std::size_t most = link::standby_frame_room(job);
  std::string_view rest = record;
  for (; rest.size() > most; rest.remove_prefix(most)) {
    tell({.kind = Kind::part, .job = job, .bytes = rest.substr(0, most)});
  }
  tell({.kind = Kind::record, .job = job, .bytes = rest});
}

void Standbys::Standby::begin_log(const std::string& job, RoundNumber round) {
  tell({.kind = Kind::log_begins, .round = round, .job = job});
}

void Standbys::Standby::add_log(const std::string& job, std::string_view bytes) {
  const std::size_t most = link::standby_frame_room(job);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), most))) {
    tell({.kind = Kind::log, .job = job, .bytes = bytes.substr(0, most)});
  }
}

// What its socket does not take waits here. Nobody is served while an image waits for room, so
// there is some.
bool Standbys::Standby::has_room_for_image() {
  is_asked_for_room_ = bytes_waiting_ > bounds::standby_bytes_waiting_max;
  return !is_asked_for_room_;
}

void Standbys::Standby::log_is_whole(const std::string& job) {
  tell({.kind = Kind::log_whole, .job = job});
  look_soon();
}

void Standbys::Standby::end_log(const std::string& job) {
  tell({.kind = Kind::log_ends, .job = job});
  look_soon();
}

// The log itself has it among the whole ones when this is over, or is no more.
void Standbys::Standby::look_soon() {
  all_.loop_.soon([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) look_whether_all_is_told();
  });
}

void Standbys::Standby::look_whether_all_is_told() {
  if (is_slow_ || caught_up_at_ > 0 || !all_.callbacks_.logs->is_whole_at(*this)) return;
  tell({.kind = Kind::caught_up});
  caught_up_at_ = last_;
  // From here on nobody is told what it does not have.
  all_.callbacks_.wait_for(last_);
}

void Standbys::Standby::tell(link::StandbyRecord record) {
  record.number = last_ = all_.next_place();
  std::string frame = link::standby_frame(record);
  bytes_told_ += frame.size();
  sent_.push_back({last_, bytes_told_, all_.loop_.now()});
  bytes_waiting_ += frame.size();
  waiting_.push_back(std::move(frame));
  if (caught_up_at_ > 0) all_.callbacks_.wait_for(last_);
  write();
}

void Standbys::Standby::write() {
  while (!waiting_.empty() && channel_->has_room()) {
    const std::string frame = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_waiting_ -= frame.size();
    channel_->send_bytes(frame);
  }
  if (is_asked_for_room_ && has_room_for_image()) all_.callbacks_.logs->resume_images();
}

// What it lacked was little: it counts again when it has that, too.
void Standbys::Standby::come_near() {
  is_slow_ = false;
  if (!all_.callbacks_.logs->is_whole_at(*this)) return look_soon();
  caught_up_at_ = last_;
  all_.callbacks_.wait_for(last_);
}

std::string Standbys::Standby::hear(std::string_view frame) {
  heard_ = all_.loop_.now();
  const auto record = link::read_standby_frame(frame);
  if (!record) return record.error().reason;
  if (record->kind == Kind::renew) {
    all_.callbacks_.logs->renew(*this, std::string(record->job));
    return {};
  }
  if (record->kind != Kind::has) return "it says what only the one that leads says";
  if (record->number > last_) return "it has what it was never told";
  has_ = std::max(has_, record->number);
  for (; !sent_.empty() && sent_.front().place <= has_; sent_.pop_front()) {
    bytes_had_ = sent_.front().bytes;
  }
  if (is_slow_ && lag() < bounds::standby_silence / 4) come_near();
  // It may be the last of those that were waited for; whoever is told may end this one.
  all_.look_at_names();
  all_.look_at_places();
  return {};
}

}  // namespace cpprun
