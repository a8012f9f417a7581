// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One cpprund that stands by, as Standbys has it.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/daemon/io/standbys.h"

namespace cpprun {

// One of them, and its link. What it is told waits here while the socket takes no more.
class Standbys::Standby : public LogKeeper {
 public:
  Standby(Standbys& all, std::shared_ptr<LinkEnd> channel, const link::Follow& follow);

  void begin();
  void leave(const std::string& reason);

  const link::Follow& who() const { return follow_; }
  bool has_been_told() const { return caught_up_at_ > 0; }
  // It has everything that it was to have when it had been told all there was.
  bool is_caught_up() const { return caught_up_at_ > 0 && has_ >= caught_up_at_; }
  // Of all that anybody was told up to `place`, it lacks nothing through here: what was told to
  // others alone it need not have.
  std::uint64_t has_through(std::uint64_t place) const {
    return sent_.empty() ? place : sent_.front().place - 1;
  }
  bool has_everything() const { return is_caught_up() && has_ >= last_; }
  std::uint64_t bytes_behind() const { return bytes_told_ - bytes_had_; }
  // Nothing holds up what it is told, and its link does not take it.
  bool is_swamped() const;
  TimePoint heard() const { return heard_; }
  // This process did not run for so long.
  void pass_over_sleep(Duration slept);
  // For how long it has lacked what it was told first of what it lacks.
  Duration lag() const;
  // Nobody waits for it from here on, until it has come near again.
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

  Standbys& all_;
  std::shared_ptr<LinkEnd> channel_;
  const link::Follow follow_;
  TimePoint heard_;
  std::deque<std::string> waiting_;
  std::size_t bytes_waiting_ = 0;
  bool is_asked_for_room_ = false;  // and had none
  struct Sent {
    std::uint64_t place = 0;
    std::uint64_t bytes = 0;  // told with it and before
    TimePoint at{};
  };
  std::deque<Sent> sent_;  // that it does not have yet, for all that is known
  std::uint64_t last_ = 0;
  std::uint64_t has_ = 0;
  // 0: it has not been told all there was, or is too slow to be waited for.
  std::uint64_t caught_up_at_ = 0;
  bool is_slow_ = false;
  std::uint64_t bytes_told_ = 0;
  std::uint64_t bytes_had_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
