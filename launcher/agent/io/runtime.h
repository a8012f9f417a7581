// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's runtime (Runtime), and how it shows the coordinator the node's addresses
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
#include "launcher/workers/io/beat_files.h"
#include "launcher/workers/io/process.h"
#include "launcher/workers/io/signals.h"
#include "launcher/workers/io/watchdog.h"
#include "proto/link/message.h"
#include "proto/state_machine.h"
#include "rendezvous/client/io/link_client.h"
#include "rendezvous/client/io/link_security.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/side_processes.h"
#include "rendezvous/logging.h"
#include "rendezvous/store/io/store_forwarder.h"

namespace cpprun::io {

// Shows the coordinator every address from which this node reaches it. The master's name may stand
// for several addresses, and a worker may pick another one than our link did and so arrive from
// another address of ours. The coordinator admits an address only after being spoken to from it.
//
// This happens before the node asks for a seat, since a worker may connect to the store a
// millisecond after the round is sealed.
class Introduction {
 public:
  explicit Introduction(asio::io_context& context) : context_(context), patience_(context) {}

  // From here on both sides of every link prove that they hold the same secret; null: neither does.
  void use(std::shared_ptr<SecureContext> secure) { secure_ = std::move(secure); }
  // Says `who` at each of these addresses, a few at most. `done` is called once: when the last has
  // answered or cannot be reached, or bounds::introduction_patience is over.
  void begin(std::vector<std::string> addresses, int port, const link::WhoHosts& who,
             std::function<void()> done);
  // Calls nobody any more. The links stay until the coordinator, which counts them, needs them no
  // longer.
  void end();

 private:
  void one_is_done();

  asio::io_context& context_;
  std::shared_ptr<SecureContext> secure_;
  asio::steady_timer patience_;
  std::vector<std::unique_ptr<LinkClient>> links_;
  std::vector<char> answered_;  // by link
  std::size_t left_ = 0;
  std::function<void()> done_;
};

// The agent's runtime: connects it to the coordinator, the processes, the consoles and the signals,
// performs what it decides, and tells it the outcome. Decides nothing itself.
//
// Whatever happens becomes an event in the queue of one driver (proto/state_machine.h).
class Runtime {
 public:
  // `watchdog` was posted before there was an event loop.
  Runtime(RunInputs inputs, Watchdog watchdog);
  ~Runtime();

  // Runs the job to its end and gives cpprun's exit code.
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
  const std::uint32_t agent_number_;  // by which its coordinator knows this agent
  ConsoleMessages messages_;
  OutputPump pump_;
  LogLimiter strangers_;  // of lines about whoever comes to our port
  MachineTimer strangers_timer_;
  std::optional<WorkerProcesses> processes_;
  std::optional<Signals> signals_;
  std::optional<PreemptionWatch> notices_;
  std::optional<LogDir> logs_;
  std::optional<EvidenceCollector> collector_;
  std::unique_ptr<CoordinatorServer> coordinator_;  // where this node hosts it
  std::unique_ptr<CoordinatorServer> standby_;      // where it may, if that one is lost
  std::unique_ptr<CoordinatorServer> retired_;      // where it did
  std::unique_ptr<LinkClient> client_;              // where it does not
  Endpoint client_at_;                              // to which that leads
  int standby_port_ = 0;                            // of standby_
  bool link_is_new_ = false;                        // nobody who leads was heard on it
  std::unique_ptr<StoreForwarder> forwarder_;       // where it does not, and stores are local
  int local_store_port_ = 0;                        // 0: workers go to the master themselves
  Introduction introduction_;                       // of this node, where it does not
  LinkSecurity security_;
  std::optional<RestartStateFile> restart_state_;    // where this node hosts it, and one is kept
  Inquiry error_file_;                               // for whoever started cpprun
  std::vector<std::unique_ptr<LinkClient>> askers_;  // of who else hosts
  Driver<Agent> agent_;

  int watchdogs_started_ = 0;          // in the place of one that was killed
  std::optional<TimePoint> fence_;     // what the watchdog was told last
  std::vector<WorkerSpec> specs_;      // of the attempt that runs
  std::vector<int> pids_;              // by local rank; 0 before it started
  BeatFiles beat_files_;               // of these
  std::optional<SpawnError> no_room_;  // the attempt's folders could not be made
  std::vector<DiagnosedEnd> ends_;     // the bad ones of the attempt that runs
  WallTime started_{};
  Attempts attempts_;
  LeaderChanges leaders_;
  std::vector<std::pair<WallTime, event_log::Event>> kept_;  // for whoever may come and watch
  GroupRank group_rank_{};               // of this node, in the round that was sealed last
  int restarts_ = 0;                     // of the job, when the last round was sealed
  std::optional<agent::Exit> exit_;      // the agent's last word
  int files_to_leave_ = 0;               // report, events, error file: they are being written
  std::optional<Duration> flush_after_;  // that: how long consoles are waited for
  bool leaving_ = false;
  bool is_asked_to_end_ = false;  // by a signal, whose sender may KILL after a grace of its own
};

}  // namespace cpprun::io
