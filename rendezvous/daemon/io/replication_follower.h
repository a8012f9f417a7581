// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The standby's side of replication: requests from the leader everything that is needed to take
// over, stores it as it arrives, and acknowledges it. The data survives a broken link, until a
// leader sends it anew.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "proto/clock.h"
#include "proto/link/binary_frame.h"
#include "proto/link/message.h"
#include "proto/result.h"
#include "rendezvous/coordinator/io/replicated_coordinator.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/link_end.h"
#include "rendezvous/logging.h"

namespace cpprun {

class ReplicationFollower {
 public:
  struct Callbacks {
    std::function<void(LogLevel level, const std::string& sentence)> say;
    // Creates a link to that address without dialling it yet.
    std::function<Result<std::unique_ptr<DialledLink>>(const std::string& host, int port,
                                                       DialCallbacks)>
        link_to;
    std::function<void(const link::Leads&, const Endpoint& there)> heard;
    // All existing state has arrived. From here on the leader sends changes.
    std::function<void()> caught_up;
    std::function<void()> take_over;
    // Contact with the leader was lost; `silence` is the time since its last message, if that is
    // why.
    std::function<void(const std::string& reason, Duration silence)> lost;
  };
  // The server keeps the replicas of stores.
  ReplicationFollower(EventLoop loop, ReplicatedCoordinator& server, Callbacks callbacks);
  ~ReplicationFollower();
  ReplicationFollower(const ReplicationFollower&) = delete;
  ReplicationFollower& operator=(const ReplicationFollower&) = delete;

  // Follows the leader at that address: dials again whenever the link breaks.
  void follow(const std::string& host, int port, const link::Follow& own);
  // Stops following. Data received so far is kept.
  void leave();

  // The data is complete up to the last record acknowledged.
  bool is_whole() const { return is_whole_; }
  std::uint64_t epoch() const { return epoch_; }  // of the leader that sent the data
  // Records by job.
  const std::map<std::string, std::string>& records() const { return records_; }
  // forget() discards the data and the replicas. release() discards only the records, since this
  // member now leads with the replicas.
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
  void say_once(LogLevel level, const std::string& sentence);
  void went_down(const std::string& reason, Duration silence = {});
  void cannot_follow(const std::string& job, const std::string& reason);
  bool cannot_be_followed(const std::string& job) const;
  void ask_anew();
  void say_what_it_has();
  void tick();

  const EventLoop loop_;
  ReplicatedCoordinator& server_;
  const Callbacks callbacks_;
  const std::unique_ptr<Alarm> alarm_;
  Endpoint at_;  // the leader to follow; empty: none
  link::Follow own_;
  std::unique_ptr<DialledLink> client_;
  bool is_up_ = false;
  bool is_refused_ = false;  // the leader rejected this standby on this link
  bool is_heard_ = false;    // the leader has confirmed on this link that it leads
  TimePoint heard_{};
  TimePoint tick_due_{};
  TimePoint dial_at_{};
  std::set<std::string> told_;  // problems logged since the last link to a leader
  std::map<std::string, std::string> records_;
  std::map<std::string, std::string> parts_;  // of records that have not arrived completely
  // Retries for replicas of stores that failed.
  struct Renewal {
    bool is_wanted = false;  // failed, and no new image has begun
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
