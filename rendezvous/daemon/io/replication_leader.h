// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The leader's side of replication: sends each standby the records of all jobs and the logs of
// their stores, and tracks its acknowledgements. A reply to a node or worker waits until all
// standbys in sync have the state that it depends on. The owner must publish which standbys are in
// sync before that takes effect, since a standby that missed a reply must never lead.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/link/binary_frame.h"
#include "proto/link/message.h"
#include "rendezvous/coordinator/io/replicated_coordinator.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/link_end.h"
#include "rendezvous/logging.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

class ReplicationLeader {
 public:
  struct Callbacks {
    std::size_t standbys_max = 0;  // further ones are rejected
    std::function<void(LogLevel level, const std::string& sentence)> say;
    // The standbys may have more than before.
    std::function<void()> replicated;
    // These members, this one included, have everything that was sent to clients. The owner
    // publishes them and then calls known(). No other members may become leader.
    std::function<void(const std::vector<std::string>& names)> make_known;
    // The addresses of the published standbys, for agents.
    std::function<void(const std::vector<std::string>& places)> changed;
  };
  // The server's replies wait for the standbys under CommitSource::log.
  ReplicationLeader(EventLoop loop, ReplicatedCoordinator& server, Callbacks callbacks);
  ~ReplicationLeader();
  ReplicationLeader(const ReplicationLeader&) = delete;
  ReplicationLeader& operator=(const ReplicationLeader&) = delete;

  // Starts replication until end(), in the epoch and under the name in `own`. At the start only
  // this member is known to be in sync.
  void begin(const link::Leads& own);
  void end(const std::string& reason);
  // A member asks to become a standby.
  void adopt(const std::shared_ptr<LinkEnd>& channel, const link::Follow& follow);
  // `names`, as given to make_known(), are published: every member that could become leader knows
  // them.
  void known(const std::vector<std::string>& names);

  void keep(const std::string& job, const std::string& record);
  void forget(const std::string& job);

  // With full member names, including the life.
  std::vector<StandbySnapshot> seen() const;
  // The latest names to be published, including this member.
  const std::vector<std::string>& names() const { return asked_names_; }
  // The standby is in sync and has everything.
  bool is_ready(const std::string& name) const;
  // Tells that standby to take over. No client may receive a reply after that.
  void hand_over(const std::string& name);

 private:
  class ReplicationSession;
  std::uint64_t next_sequence() { return ++last_sequence_; }
  void wait_for(std::uint64_t place) { server_.wait_for(CommitSource::log, place); }
  void ended(ReplicationSession& standby, const std::string& reason);
  void no_longer_wait_for(ReplicationSession& standby);
  void compare_addresses();
  void look_at_names();
  std::string who_holds_up() const;
  void look_at_what_is_asked();
  void beat();
  void pass_over_sleep();

  const EventLoop loop_;
  ReplicatedCoordinator& server_;
  const Callbacks callbacks_;
  const std::unique_ptr<Alarm> alarm_;
  TimePoint beat_due_{};
  link::Leads own_;
  bool is_begun_ = false;
  std::uint64_t last_sequence_ = 0;  // of the last record sent to any standby
  std::map<std::string, std::unique_ptr<ReplicationSession>> standbys_;  // by name
  std::vector<std::string> asked_names_;  // latest names passed to make_known()
  std::optional<TimePoint> asked_at_;     // while unanswered, and not yet reported as late
  std::vector<std::string> known_names_;  // last published
  std::set<std::string> may_lead_;  // may be published: known_names_ and all names requested since
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
