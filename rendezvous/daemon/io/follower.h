// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A cpprund that stands by for another one: it asks that one for everything it has to know to lead
// in its place, keeps it as it comes, and says how far it has come. What it has stays when the link
// breaks, until it follows somebody anew.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "proto/clock.h"
#include "proto/link/binary_frame.h"
#include "proto/link/message.h"
#include "proto/result.h"
#include "rendezvous/daemon/place.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/link_end.h"
#include "rendezvous/logging.h"

namespace cpprun {

class Follower {
 public:
  struct Callbacks {
    std::function<void(LogLevel level, const std::string& sentence)> say;
    // A link to that place, which is not dialled yet.
    std::function<Result<std::unique_ptr<DialledLink>>(const std::string& host, int port,
                                                       DialCallbacks)>
        link_to;
    // --- the stores of jobs (CoordinatorServer) ---
    std::function<Result<void>(const std::string& job, RoundNumber round)> begin_replica;
    std::function<Result<void>(const std::string& job, std::string_view bytes)> add_to_replica;
    std::function<void(const std::string& job)> replica_is_whole;
    std::function<void(const std::string& job)> end_replica;
    std::function<void()> end_replicas;
    // --- the one that leads ---
    std::function<void(const link::Leads&, const Place& there)> heard;
    // Whoever was asked stands by for this one.
    std::function<void(std::uint64_t epoch)> is_said_to_lead;
    // It has been told everything there was, and is told what happens.
    std::function<void()> caught_up;
    std::function<void(std::uint64_t epoch)> take_over;
    // Nothing was heard of it for so long by then.
    std::function<void(const std::string& reason, Duration silence)> lost;
  };
  Follower(EventLoop loop, Callbacks callbacks);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // That one leads, and is to be followed from now on: dialled again as often as the link breaks.
  // Without an etcd it may say that another one does, which is followed as long as that is there.
  void follow(const std::string& host, int port, const link::Follow& own);
  // Nobody is, and what there is stays.
  void leave();
  bool follows(const std::string& host, int port) const {
    return !asked_.host.empty() && asked_ == Place{host, port};
  }

  // It dials one that is said to lead in that epoch, by the word of whoever it was to follow.
  std::optional<std::uint64_t> sent_for() const { return sent_for_; }

  // What it has is all there is, as of the last that it has said it has.
  bool is_whole() const { return is_whole_; }
  std::uint64_t epoch() const { return epoch_; }  // of the one whose that is
  // The records of jobs.
  const std::map<std::string, std::string>& records() const { return records_; }
  // It is of no use any more; or it is led here now, with its replicas.
  void forget();
  void release();

 private:
  void dial();
  void drop_link();
  void came_up();
  void hear(const link::Message& message);
  std::string hear_frame(std::string_view frame);
  Result<void> take(const link::StandbyRecord& record);
  void begin_anew(const link::Leads& leads);
  void hear_elsewhere(const link::NotLeading& other);
  void say_once(LogLevel level, const std::string& sentence);
  void went_down(const std::string& reason, Duration silence = {});
  void cannot_follow(const std::string& job, const std::string& reason);
  bool cannot_be_followed(const std::string& job) const;
  void ask_anew();
  void say_what_it_has();
  void tick();

  const EventLoop loop_;
  const Callbacks callbacks_;
  const std::unique_ptr<Alarm> alarm_;
  Place asked_;  // whom it is to follow; empty: nobody
  Place at_;     // whom it dials
  // Who leads, and in which epoch, by the word of whoever was asked: where it is, or goes next.
  struct Elsewhere {
    Place place;
    std::uint64_t epoch = 0;
  };
  std::optional<Elsewhere> next_;
  std::optional<std::uint64_t> sent_for_;
  link::Follow own_;
  std::unique_ptr<DialledLink> client_;
  bool is_up_ = false;
  bool is_refused_ = false;  // on this link
  bool is_heard_ = false;    // it has said that it leads, on this link
  TimePoint heard_{};
  TimePoint tick_due_{};
  TimePoint dial_at_{};
  std::set<std::string> told_;  // of why there is no link, since there was one
  std::map<std::string, std::string> records_;
  std::map<std::string, std::string> parts_;  // of records that have not come in full
  // Of stores that could not be followed.
  struct Renewal {
    bool is_wanted = false;  // and no image has begun since
    TimePoint at{};
    Duration pause{};
  };
  std::map<std::string, Renewal> renewals_;  // by job
  bool is_whole_ = false;
  std::uint64_t epoch_ = 0;
  std::uint64_t has_ = 0;
  bool says_soon_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
