// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's runtime (Runtime), and how it announces the node's addresses to the coordinator
// (Introduction).

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/io/preparation.h"
#include "launcher/agent/io/restart_state_file.h"
#include "launcher/failure/io/evidence_collector.h"
#include "launcher/io/disk_helper.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/output/io/output_pump.h"
#include "launcher/report/console_messages.h"
#include "launcher/report/io/output_files.h"
#include "launcher/report/report.h"
#include "launcher/workers/io/heartbeat_files.h"
#include "launcher/workers/io/process.h"
#include "launcher/workers/io/signals.h"
#include "launcher/workers/io/watchdog.h"
#include "proto/link/message.h"
#include "proto/state_machine.h"
#include "rendezvous/client/io/link_client.h"
#include "rendezvous/client/io/link_security.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/logging.h"
#include "rendezvous/store/io/store_forwarder.h"

namespace cpprun::io {

// Announces to the coordinator every address from which this node reaches it. The master's name may
// resolve to several addresses. A worker may pick another one than our link did, and then connects
// from another address of ours. The coordinator admits an address only after a message from it.
//
// This happens before the node joins, since a worker may connect to the store a millisecond after
// the round is sealed.
class Introduction {
 public:
  explicit Introduction(asio::io_context& context) : context_(context), patience_(context) {}

  // From now on both sides of every link prove that they hold the same secret. Null: neither does.
  void use(std::shared_ptr<SecureContext> secure) { secure_ = std::move(secure); }
  // Sends `who` to each of these addresses, at most a few. Calls `done` once: when the last one has
  // replied or cannot be reached, or after bounds::introduction_patience.
  void begin(std::vector<std::string> addresses, int port, const link::WhoHosts& who,
             std::function<void()> done);
  // Cancels `done`. The links stay open, because the coordinator counts them, until it no longer
  // needs them.
  void end();

 private:
  void one_is_done();

  asio::io_context& context_;
  std::shared_ptr<SecureContext> secure_;
  asio::steady_timer patience_;
  std::vector<std::unique_ptr<LinkClient>> links_;
  std::vector<char> answered_;  // by index of the link
  std::size_t left_ = 0;
  std::function<void()> done_;
};

// The agent's runtime. Connects the agent to the coordinator, the processes, the consoles and the
// signals, performs its actions, and returns the results. Makes no decisions itself.
//
// Everything that happens becomes an event in the queue of one driver (proto/state_machine.h).
class Runtime {
 public:
  // `watchdog` was started before there was an event loop.
  Runtime(RunInputs inputs, Watchdog watchdog);
  ~Runtime();

  // Runs the job to its end and returns cpprun's exit code.
  int run();

 private:
  int break_off(const std::string& why);
  Result<void> open();
  Result<void> open_coordinator();
  Result<void> host_coordinator();
  std::unique_ptr<CoordinatorServer> make_coordinator();
  CoordinatorOptions coordinator_options() const;
  void open_door();
  void lead();
  void lead_again();
  void serve_workers_here();
  std::unique_ptr<LinkClient> make_client(const Endpoint& at,
                                          std::shared_ptr<SecureContext> secure);
  Result<void> open_forwarder();
  Result<RestartState> take_restart_state();
  std::string job_of_restart_state() const;
  void keep_restart_state();
  Result<void> look_for_coordinator();
  Result<void> open_local_store();
  void find_own_place();
  void take_signals();
  void signalled(int signal, const SignalSender& sender);
  void watch_for_notice();
  void place_found(const Result<std::vector<std::string>>& addresses);
  link::WhoHosts who_asks() const;
  void hear_coordinator(const Note& said);
  void tell_held_back(TimePoint until);
  void post(Agent::Event event) {
    notice_watchdog();
    agent_.post(std::move(event));
  }
  void notice_watchdog() {
    if (watchdog_.has_fired()) agent_.post(agent::Fenced{});
  }
  Driver<Agent>::Effects effects();
  void tell_fence(std::optional<TimePoint> fence);
  void on(const agent::Dial& action);
  void on(const agent::SpeakForWorkers& action);
  void on(const agent::Say& action);
  void on(const agent::AskWhoHosts& action);
  void on(const agent::StandBy& action);
  void on(const agent::Stand& action);
  void on(const agent::TakeOver& action);
  void on(const agent::StepDown& action);
  void on(const agent::HangUp& hang_up);
  void on(const agent::Prepare& action);
  void on(const agent::Work& action);
  void on(const agent::Examine& action);
  void on(const agent::LookAtWorld& action);
  void on(const agent::LookAtWorkers& action);
  void on(const agent::TellStarted& action);
  void on(const agent::TellWaiting& action);
  void on(const agent::TellDraining& action);
  void on(const agent::TellKilling& action);
  void on(const agent::TellFailed& action);
  void on(const agent::TellDiagnosed& action);
  void on(const agent::TellNote& action);
  void on(const agent::TellDetail& action);
  void on(const agent::TellNearMiss& action);
  void on(const agent::TellTurned& action);
  void on(const agent::TellWarning& action);
  void on(const agent::Exit& action);
  void look_at_beats();
  void spawn(WorkerSpec spec);
  void deliver(const supervisor::SignalWorker& action);
  ReportFacts report_facts(const agent::Exit& last) const;
  void say_report(const ReportFacts& facts);
  void leave_report(const ReportFacts& facts);
  void announce_report(const std::string& reason);
  void file_is_left();
  void note(const event_log::Event& event);
  void tell_kept();
  void leave_error_file(const link::Failure& root);
  void replace_watchdog();
  std::vector<int> spared_children() const;
  void rendezvous_ended();
  void leave_when_everything_is_said();
  void leave_within(Duration patience);

  RunInputs inputs_;
  Watchdog watchdog_;
  asio::io_context context_{1};
  MachineTimer timer_;
  asio::steady_timer farewell_;
  const std::uint32_t agent_number_;  // identifies this agent to its coordinator
  ConsoleMessages messages_;
  OutputPump pump_;
  LogLimiter unidentified_connections_;  // for log lines about unidentified connections
  MachineTimer strangers_timer_;
  std::optional<WorkerProcesses> processes_;
  std::optional<Signals> signals_;
  std::optional<PreemptionWatch> notices_;
  std::optional<LogDir> logs_;
  std::optional<EvidenceCollector> collector_;
  std::unique_ptr<CoordinatorServer> coordinator_;  // if this node hosts it
  std::unique_ptr<CoordinatorServer> standby_;      // if this node may host it later
  std::unique_ptr<CoordinatorServer> retired_;      // if this node hosted it before
  std::unique_ptr<LinkClient> client_;              // if this node does not host it
  Endpoint client_at_;                              // target of client_
  int standby_port_ = 0;                            // of standby_
  bool link_is_new_ = false;                        // no message from a leader yet
  std::unique_ptr<StoreForwarder> forwarder_;  // if this node does not host it and stores are local
  int local_store_port_ = 0;                   // 0: workers connect to the master directly
  Introduction introduction_;                  // of this node, if it does not host it
  LinkSecurity security_;
  std::optional<RestartStateFile> restart_state_;    // if hosted here, with --restart-state
  AsyncTask error_file_;                             // for the parent of cpprun
  std::vector<std::unique_ptr<LinkClient>> askers_;  // links of AskWhoHosts
  Driver<Agent> agent_;

  int watchdogs_started_ = 0;          // replacements for killed watchdogs
  std::optional<TimePoint> fence_;     // last value sent to the watchdog
  std::vector<WorkerSpec> specs_;      // of the current attempt
  std::vector<int> pids_;              // by local rank; 0 before the start
  HeartbeatFiles heartbeat_files_;     // of these workers
  std::optional<SpawnError> no_room_;  // set if the log directories could not be created
  std::vector<DiagnosedEnd> ends_;     // failed workers of the current attempt
  WallTime started_{};
  Attempts attempts_;
  LeaderChanges leaders_;
  std::vector<std::pair<WallTime, event_log::Event>> kept_;  // for clients that watch later
  GroupRank group_rank_{};               // of this node, in the last sealed round
  int restarts_ = 0;                     // of the job, as of the last sealed round
  std::optional<agent::Exit> exit_;      // the agent's last action
  int files_to_leave_ = 0;               // report, events, error file: writes in progress
  std::optional<Duration> flush_after_;  // timeout for the consoles once the files are written
  bool leaving_ = false;
  bool is_asked_to_end_ = false;  // by a signal; its sender may follow up with KILL
};

}  // namespace cpprun::io
