// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's runtime: its event loop, console, reports and end.

#include <unistd.h>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/io/agent_upgrade.h"
#include "launcher/agent/io/coordinator_client.h"
#include "launcher/agent/io/hosted_coordinator.h"
#include "launcher/agent/io/preparation.h"
#include "launcher/agent/io/upgrade_state.h"
#include "launcher/agent/io/worker_runtime.h"
#include "launcher/io/disk_helper.h"
#include "launcher/output/io/output_pump.h"
#include "launcher/report/console_messages.h"
#include "launcher/report/io/output_files.h"
#include "launcher/report/report.h"
#include "launcher/workers/io/signals.h"
#include "launcher/workers/io/watchdog.h"
#include "proto/secure/io/openssl_library.h"
#include "proto/state_machine.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/logging.h"

namespace cpprun::io {

// The agent's runtime. Connects the agent to the coordinator (HostedCoordinator,
// CoordinatorClient), the workers (WorkerRuntime), the consoles and the signals, performs its
// actions, and returns the results. Makes no decisions itself.
//
// Everything that happens becomes an event in the queue of one driver (proto/state_machine.h).
class Runtime {
 public:
  // `watchdog` was started before there was an event loop. `before`: what another program in this
  // process has left, which has prepared `inputs` (continue_inputs()).
  Runtime(RunInputs inputs, Watchdog watchdog, std::optional<UpgradeState> before = {});
  ~Runtime();

  // Runs the job to its end and returns cpprun's exit code.
  int run();

 private:
  int break_off(const std::string& why);
  void fail(const std::string& reason);
  Result<void> open();
  Result<void> resume();
  void begin();
  Result<UpgradeState> state_now();
  void upgrade(std::uint64_t number);
  void checked(const Result<std::string>& version);
  void execute_upgrade();
  void refuse_upgrade(std::uint64_t number, const std::string& why);
  void serve();
  Result<void> open_coordinator();
  Result<void> open_local_store();
  void reopen_local_store();
  HostedCoordinator::Callbacks callbacks_of_hosted();
  WorkerRuntime::Callbacks callbacks_of_workers();
  void step_down();
  void take_signals();
  void heard_signal(int signal, const SignalSender& sender);
  void signalled(int signal, const SignalSender& sender);
  void watch_for_notice();
  void hear_coordinator(const Note& said);
  void tell_held_back(TimePoint until);
  void post(Agent::Event event);
  void notice_watchdog();
  Driver<Agent>::Effects effects();
  void tell_fence(std::optional<TimePoint> fence);
  void replace_watchdog();
  void rendezvous_ended();

  void perform(const agent::Action& action);
  void stand_by(const agent::StandBy& action);
  void seen(const supervisor::Failed& action);
  void seen(const supervisor::Draining& action);
  void seen(const supervisor::Killing& action);
  void begin_round(const events::RoundSealed& event);
  void exit(const events::JobEnded& event);

  void publish(const events::Event& event);
  void note(std::string sentence, LogLevel level = LogLevel::info) {
    publish(events::Note{std::move(sentence), level});
  }
  void warn(std::string sentence) { note(std::move(sentence), LogLevel::warning); }
  void log(WallTime now, const events::Event& event);
  void tell_kept();
  std::string status_page() const;
  void describe_job();
  void leave_report();
  void announce_report(const std::string& reason);
  void leave_error_file(const link::Failure& root);
  void file_is_left();
  void leave_when_everything_is_said();
  void leave_within(Duration timeout);

  RunInputs inputs_;
  std::optional<UpgradeState> before_;  // until it is used
  Watchdog watchdog_;
  asio::io_context context_{1};
  MachineTimer timer_;
  asio::steady_timer result_delivery_;
  const int parent_ = ::getppid();
  asio::steady_timer parent_check_;  // whether a second signal came because the parent has ended
  ConsoleMessages messages_;
  OutputPump pump_;
  LogLimiter unidentified_connections_;  // for log lines about unidentified connections
  MachineTimer unidentified_timer_;
  WorkerRuntime workers_;
  std::optional<Signals> signals_;
  std::optional<PreemptionWatch> notices_;
  LinkSecurity security_;
  HostedCoordinator hosted_;
  CoordinatorClient client_;  // if hosted_ is not the leader
  int local_store_port_ = 0;  // 0: workers connect to the master directly
  AsyncTask error_file_;      // for the parent of cpprun
  AgentUpgrade upgrade_;
  std::optional<std::uint64_t> upgrade_number_;  // of the upgrade under way
  TimePoint upgrade_asked_{};
  std::optional<std::uint64_t> upgraded_number_;  // of the upgrade that started this program
  bool upgrade_is_due_ = false;                   // the program was checked
  Driver<Agent> agent_;

  int watchdogs_started_ = 0;                             // replacements for killed watchdogs
  std::optional<TimePoint> fence_;                        // last value sent to the watchdog
  ReportFacts report_;                                    // as of now
  std::vector<std::pair<WallTime, events::Event>> kept_;  // for clients that watch later
  std::optional<int> exit_code_;                          // set by the agent's last action
  int files_to_leave_ = 0;               // report, events, error file: writes in progress
  std::optional<Duration> flush_after_;  // timeout for the consoles once the files are written
  bool leaving_ = false;
  bool is_asked_to_end_ = false;  // by a signal; its sender may follow up with KILL
};

}  // namespace cpprun::io
