// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A member of a cluster of cpprunds with one leader. It connects the election in etcd
// (LeaderElection), the coordinator, the standbys that it replicates to as the leader, and the
// state that it replicates as a standby.
//
//   standby ────────────────── wins an election ──────────► leader, with its state of all jobs
//      ▲                                                       │
//      └──────── its lease ended, or it transferred the lead ◄─┘
//
// A leader decides only while its lease is valid by its own clock, which counts time spent
// suspended.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/bounds.h"
#include "proto/result.h"
#include "rendezvous/coordinator/io/replicated_coordinator.h"
#include "rendezvous/daemon/io/replication_follower.h"
#include "rendezvous/daemon/io/replication_leader.h"
#include "rendezvous/daemon/owners.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/etcd/election_events.h"
#include "rendezvous/etcd/etcd_request.h"
#include "rendezvous/etcd/leader_election.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

struct ReplicaControllerOptions {
  std::string name;     // of this member: member_name()
  std::string cluster;  // name of the cluster
  std::string place;    // this member's address for others and agents: "10.0.0.1:29400"
  std::string version;  // for display
  EtcdAccess etcd;
  Duration etcd_lease = bounds::election_ttl;
  std::size_t standbys_max = bounds::members_max - 1;
  bool leaves_nothing = false;  // delete its keys from etcd if it is the last member
};

// The clock, and access to other members and etcd: by sockets (ports_of() in store_daemon.cpp), or
// simulated in tests.
struct SetPorts {
  EventLoop loop;
  std::function<WallTime()> wall_now;
  std::function<Result<std::unique_ptr<DialledLink>>(const std::string& host, int port,
                                                     DialCallbacks)>
      link_to;
  // Sets ElectionOptions::seed.
  std::function<Result<std::unique_ptr<Elector>>(ElectionOptions, const EtcdAccess&, Elector::Told)>
      election;
};

class ReplicaController {
 public:
  struct Callbacks {
    std::function<void(LogLevel level, const std::string& sentence)> say;
    // Whether a client with a secret of `owner` has access to the jobs of all owners.
    std::function<bool(const std::string& owner)> sees_all;
    // This member sees a new leader; for the log and events.
    std::function<void(const LeaderChange& change)> leader_changed;
  };
  ReplicaController(SetPorts ports, ReplicatedCoordinator& server, ReplicaControllerOptions options,
                    Callbacks callbacks);
  ~ReplicaController();
  ReplicaController(const ReplicaController&) = delete;
  ReplicaController& operator=(const ReplicaController&) = delete;

  // Call this after the server's port is open. Fails if the client for etcd cannot be set up.
  Result<void> start();

  // --- callbacks of the server, for the leader ---
  void adopt(const std::shared_ptr<LinkEnd>& channel, const link::Follow& follow,
             const PeerAddress& peer, const std::string& owner);
  // Returns the number to wait for under CommitSource::record; 0: no wait.
  std::uint64_t keep(const std::string& job, const std::string& record);
  std::uint64_t forget(const std::string& job);

  // Transfers leadership to a standby, which swaps roles with this member. `then` receives the
  // result in a sentence once the standby leads, or why it failed, within bounds::hand_over_answer.
  using HandedOver = std::function<void(const Result<std::string>& said)>;
  void hand_over(HandedOver then);
  // For shutdown: transfers leadership as hand_over() does, then calls `done`; at once if there is
  // nothing to transfer.
  void leave(std::function<void()> done);

  // Without the fields about the --state directory.
  DaemonSnapshot seen() const;

 private:
  link::Follow own_follow() const;
  link::Leads own_leads() const;
  Duration takeover_window() const;
  ClockPair moment() const;
  void hear(const election::Action& action);
  void on(const election::NoLeader& left);
  void on(const election::LeaderIs& leader);
  void on(const election::Unreachable& it);
  void note_trouble(std::string& kind, const std::string& reason, bool is_silence);
  std::string silence_text() const;
  std::string with_silence(const std::string& reason) const;
  void heard_written(std::uint64_t through);
  void heard_refused(const election::NotWritten& refused);
  void make_known(const std::vector<std::string>& names);
  void lead(std::uint64_t epoch);
  void recover_all();
  void recover(const std::map<std::string, std::string>& records, const char* source);
  void recover_hosts(const std::string& bytes);
  bool knows_no_job() const;
  void stop_leading(const std::string& reason, bool is_planned = false);
  void tell_addresses(const std::vector<std::string>& standbys);
  void follow_leader(const std::string& name, const std::string& place, std::uint64_t epoch);
  void heard_leader(const link::Leads& leads, const Endpoint& there);
  void lost_leader(const std::string& reason, Duration silence);
  bool waits_for_etcd() const;
  void look_whether_etcd_is_waited_for();
  void caught_up();
  Result<std::string> begin_hand_over();
  Error no_successor() const;
  void answer_asked(const Result<std::string>& said);
  void pause_replies();
  void go_on_with_hand_over();
  void transfer();
  void abort_transfer();
  void cannot_hand_over(const std::string& reason);
  void not_handed_over(const std::string& reason);
  void abort_transfer(const std::string& reason);
  void take_over();
  void end_leading();
  void withdraw();
  void drop_what_is_over();
  void left();
  void note_leader(bool is_won);

  const SetPorts ports_;
  ReplicatedCoordinator& server_;
  const ReplicaControllerOptions options_;
  const Callbacks callbacks_;
  ReplicationLeader standbys_;
  ReplicationFollower follower_;
  std::unique_ptr<Elector> election_;   // set by start()
  const std::unique_ptr<Alarm> alarm_;  // for a transfer, or for shutdown
  bool leads_ = false;
  std::uint64_t epoch_ = 0;      // of the current leader, be it this member
  std::uint64_t epoch_max_ = 0;  // highest epoch seen
  std::string leader_;
  std::string leader_address_;
  // Its records when it lost leadership, kept until another leader is known.
  std::map<std::string, std::string> own_records_;
  bool has_led_ = false;
  election::Found found_;  // contents of etcd when this member won
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::vector<std::string>> published_;  // names by number of the change
  // Problems with etcd. Each kind begins and ends independently.
  struct Trouble {
    std::string unreachable;
    std::string unwritable;
    std::string barred;
    bool is_silence = false;   // no response from etcd since the problem began
    TimePoint silent_since{};  // valid if `unreachable` is set
    // The most serious problem; empty: none.
    const std::string& text() const {
      if (!barred.empty()) return barred;
      return unreachable.empty() ? unwritable : unreachable;
    }
  };
  Trouble trouble_;      // with etcd
  std::string refused_;  // why etcd last rejected a record
  // The successor in a transfer, and its address.
  std::string successor_;
  std::string successor_address_;
  std::uint64_t successor_waits_for_ = 0;  // change that must be in etcd before replies are paused
  std::uint64_t written_ = 0;              // last change in etcd
  bool is_paused_ = false;  // replies are paused; paused_until_ is what the lease allows
  std::optional<TimePoint> paused_until_;
  bool successor_is_told_ = false;
  std::vector<std::string> unknown_names_;  // to be published if the transfer is aborted
  bool is_resigning_ = false;               // stepping down, but not yet recorded in etcd
  bool expects_lead_ = false;               // the leader has transferred leadership to this member
  int glances_ = 0;
  std::function<void()> left_;
  // A client waits for the result of a transfer.
  struct Asked {
    std::string successor;
    TimePoint paused{};  // since when replies were paused
    HandedOver then;
  };
  std::optional<Asked> asked_;
  std::unique_ptr<Alarm> asked_alarm_;
  std::unique_ptr<Alarm> silence_alarm_;  // fires late in the lease if etcd does not respond
  LeaderWatch watch_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
