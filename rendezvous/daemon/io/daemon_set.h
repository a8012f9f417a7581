// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One of several cppruns, of which one leads: brings together who leads, as etcd has it (Contest)
// or as it was agreed (--standby-of), the coordinator, whoever stands by for it, and what it has of
// another one's jobs while it stands by itself.
//
//   follows ──► it wins, or is handed the lead ──► leads, with what it has of all jobs
//      ▲                                             │
//      └──── its right is over, or handed on ◄───────┘
//
// Who leads decides only as long as it has the right to: until then by its own clock, whatever it
// has slept through.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/bounds.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/coordinator/io/led_coordinator.h"
#include "rendezvous/daemon/io/follower.h"
#include "rendezvous/daemon/io/standbys.h"
#include "rendezvous/daemon/leader_watch.h"
#include "rendezvous/daemon/owners.h"
#include "rendezvous/etcd/contest.h"
#include "rendezvous/etcd/contest_events.h"
#include "rendezvous/etcd/contest_view.h"
#include "rendezvous/etcd/io/etcd_access.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

struct DaemonSetOptions {
  std::string name;     // of this one, among them: member_name()
  std::string cluster;  // of them all
  std::string place;    // where others and agents meet it: "10.0.0.1:29400"
  std::string version;  // for people
  std::optional<EtcdAccess> etcd = {};
  Duration etcd_lease = bounds::contest_ttl;
  ContestMemory memory = {};  // what it knows of etcd from before
  std::size_t standbys_max = bounds::members_max - 1;
  std::string standby_of = {};  // "10.0.0.1:29400"; empty: of nobody
  // Whether its sandbox lets it dial anybody; not so where it was started alone.
  bool may_dial = true;
  bool leaves_nothing = false;  // in etcd, with the last of them
};

// How it is told the time, and reaches the others and etcd: by sockets (ports_of() in
// store_daemon.cpp), or by what a simulated world has in their place.
struct SetPorts {
  EventLoop loop;
  std::function<WallTime()> wall_now;
  std::function<Result<std::unique_ptr<DialledLink>>(const std::string& host, int port,
                                                     DialCallbacks)>
      link_to;
  // Fills in the seed.
  std::function<Result<std::unique_ptr<Contestant>>(ContestOptions, const EtcdAccess&,
                                                    Contestant::Told)>
      contest;
};

class DaemonSet {
 public:
  struct Callbacks {
    std::function<void(LogLevel level, const std::string& sentence)> say;
    // Whether who holds a secret of that owner may have everybody's jobs.
    std::function<bool(const std::string& owner)> sees_all;
    // What another life of this one has left of jobs goes on; false: it has left nothing.
    std::function<bool()> recover_own;
    // What was left of jobs is of no use: another one has led.
    std::function<void()> forget_own;
    // For its next life: what it knows of etcd, and whether its folder has everything.
    std::function<void(const ContestMemory& memory, bool has_all)> keep_self;
    // Another one leads than before, as far as this one knows; for people and events.
    std::function<void(const LeaderChange& change)> leader_changed;
  };
  DaemonSet(SetPorts ports, LedCoordinator& server, DaemonSetOptions options, Callbacks callbacks);
  ~DaemonSet();
  DaemonSet(const DaemonSet&) = delete;
  DaemonSet& operator=(const DaemonSet&) = delete;

  // After the server's port is open. Fails where etcd cannot be asked at all.
  Result<void> start();

  // --- of the one that leads, for the server's callbacks ---
  void adopt(const std::shared_ptr<LinkEnd>& channel, const link::Follow& follow,
             const PeerAddress& peer, const std::string& owner);
  // Gives the number to wait for under Keeping::etcd; 0: nothing.
  std::uint64_t keep(const std::string& job, const std::string& record);
  void wait_for(std::uint64_t number) { server_.wait_for(Keeping::etcd, number); }
  std::uint64_t forget(const std::string& job);

  // The one that leads and one that stands by change places. `then` is told in a sentence what was
  // done, once the other one leads, or why not; within bounds::hand_over_answer.
  using HandedOver = std::function<void(const Result<std::string>& said)>;
  void hand_over(HandedOver then);
  // On its way out: as hand_over(), and then `done`; at once where there is nothing to hand over.
  void leave(std::function<void()> done);

  // Without what is kept in its folder.
  DaemonSnapshot seen() const;

 private:
  Result<void> start_contest();
  link::Follow own_follow() const;
  link::Leads own_leads() const;
  Duration patience() const;
  Moment moment() const;
  void hear(const contest::Action& action);
  void on(const contest::NobodyLeads& left);
  void on(const contest::LeaderIs& leader);
  void on(const contest::Unreachable& it);
  void note_trouble(std::string& kind, const std::string& reason, bool is_silence);
  std::string silence_text() const;
  std::string with_silence(const std::string& reason) const;
  void keep_self(bool has_all);
  void heard_written(std::uint64_t through);
  void heard_refused(const contest::NotWritten& refused);
  void make_known(const std::vector<std::string>& names);
  void lead(std::uint64_t epoch);
  bool recover_all();
  bool recover(const std::map<std::string, std::string>& records, const char* source);
  void recover_hosts(const std::string& bytes);
  bool knows_no_job() const;
  void stop_leading(const std::string& reason, bool is_planned = false);
  void tell_places(const std::vector<std::string>& standbys);
  void follow_place(const std::string& name, const std::string& place, std::uint64_t epoch);
  void heard_leader(const link::Leads& leads, const Place& there);
  void lost_leader(const std::string& reason, Duration silence);
  std::uint64_t own_epoch() const;
  void lead_again(std::uint64_t epoch);
  bool waits_for_etcd() const;
  void look_whether_etcd_is_waited_for();
  bool is_of_this_cluster(const link::Follow& follow) const;
  void caught_up();
  Result<std::string> begin_hand_over();
  Error nobody_to_hand_over_to() const;
  void answer_asked(const Result<std::string>& said);
  void fall_silent();
  void go_on_with_hand_over();
  void pass_on();
  void stay_behind(const std::string& heir, const std::string& place);
  void give_up_hand_over();
  void cannot_hand_over(const std::string& reason);
  void not_handed_over(const std::string& reason);
  void lead_on(const std::string& reason);
  void take_over(std::uint64_t epoch);
  void end_leading();
  void withdraw();
  void drop_what_is_over();
  void left();
  void note_leader(bool is_won);

  const SetPorts ports_;
  LedCoordinator& server_;
  const DaemonSetOptions options_;
  ContestMemory memory_;
  const Callbacks callbacks_;
  Standbys standbys_;
  Follower follower_;
  std::unique_ptr<Contestant> contest_;  // null: nobody judges
  const std::unique_ptr<Alarm> alarm_;   // of what is handed over, or of the way out
  bool leads_ = false;
  std::uint64_t epoch_ = 0;      // in which it leads, or the one that leads
  std::uint64_t epoch_max_ = 0;  // of all that it has heard of
  std::string leader_;
  std::string leader_place_;
  // What this one had of its jobs when it stopped leading; as long as nobody else is known to lead.
  std::map<std::string, std::string> own_records_;
  bool has_led_ = false;
  contest::Found found_;  // what etcd had when this one won
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::vector<std::string>> published_;  // by number
  // Each begins and ends for itself.
  struct Trouble {
    std::string unreachable;
    std::string unwritable;
    std::string barred;
    bool is_silence = false;   // etcd has said nothing since it began
    TimePoint silent_since{};  // where it is unreachable
    // The worst of it; empty: there is none.
    const std::string& text() const {
      if (!barred.empty()) return barred;
      return unreachable.empty() ? unwritable : unreachable;
    }
  };
  Trouble trouble_;      // with etcd
  std::string refused_;  // why a record was last
  // To whom it is handed over, and where that one is met.
  std::string heir_;
  std::string heir_place_;
  std::uint64_t heir_waits_for_ = 0;  // what etcd has to have written before anybody is mute
  std::uint64_t written_ = 0;         // what it has
  bool is_mute_ = false;              // and until when it might have spoken
  std::optional<TimePoint> muted_until_;
  bool heir_is_told_ = false;
  std::vector<std::string> unknown_names_;  // to be made known where it leads on after that
  bool is_resigning_ = false;               // it leads no more, and etcd does not know it yet
  bool is_left_behind_ = false;             // see stay_behind()
  bool expects_lead_ = false;               // the one that has led has said so
  int glances_ = 0;
  std::function<void()> left_;
  // Somebody waits to hear what becomes of a hand-over.
  struct Asked {
    std::string heir;
    TimePoint muted{};  // nobody was answered since then
    HandedOver then;
  };
  std::optional<Asked> asked_;
  std::unique_ptr<Alarm> asked_alarm_;
  std::unique_ptr<Alarm> silence_alarm_;  // most of the lease is over, and etcd does not respond
  LeaderWatch watch_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
