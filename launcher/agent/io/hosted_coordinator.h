// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The coordinator in this process (HostedCoordinator), and the --restart-state file that it keeps
// (RestartStateFile).

#include <asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/io/preparation.h"
#include "launcher/io/disk_helper.h"
#include "proto/result.h"
#include "proto/secure/io/openssl_library.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/job/restart_policy.h"

namespace cpprun::io {

// The --restart-state file, kept by the node that hosts the rendezvous. It exists from the start
// until the job succeeds. If the job is started again, for example requeued by a scheduler, it
// resumes with the restarts it has left. A helper process writes it atomically, because the disk
// may hang.
class RestartStateFile {
 public:
  // `sentence` says what went wrong.
  using Tell = std::function<void(const std::string& sentence)>;

  // What the job used before this run; a fresh state if there is no file. Rejects a file that
  // cannot be read or written, is not a state of this job, or is not a regular file. The error
  // starts with the flag's name.
  static Result<RestartState> read(const std::string& path, const std::string& job,
                                   HelperProcesses& side);

  // From now on the file follows the coordinator's state.
  RestartStateFile(asio::io_context& context, HelperProcesses& side, std::string path,
                   std::string job, Tell tell);

  void keep(const RestartState& state);
  // The run is over. No state: the job succeeded, so the file is removed. Calls `done` when the
  // file is written, or writing it was given up.
  void finish(const std::optional<RestartState>& state, std::function<void()> done);

 private:
  void write(const RestartState& state, std::function<void()> done);
  void ask(std::function<Result<std::string>()> look, std::function<void()> done);

  AsyncTask desk_;
  std::string path_;
  std::string job_;
  Tell tell_;
  std::string last_wrong_;  // reported once, until the error changes
};

// The coordinator in this process, if there is one: this node hosts the job from the start, or it
// is a standby of another host, or it has hosted the job and lost leadership. The agent and the
// coordinators of the nodes decide which node is the leader.
class HostedCoordinator {
 public:
  struct Callbacks {
    // Of each server, except those that become events of the agent.
    CoordinatorServer::Callbacks server;
    std::function<void(Agent::Event)> post;
    // leader() is a server that has become the leader: the workers have to use its store.
    std::function<void()> leads;
    // For the console.
    std::function<void(const events::Note&)> note;
  };

  // `inputs` and `security` must outlive this object.
  HostedCoordinator(asio::io_context& context, RunInputs& inputs, LinkSecurity& security,
                    Callbacks callbacks);

  // Hosts the job. The port becomes that of `inputs.config.endpoint`.
  Result<void> open();
  // Continues to host it after another program in this process. `place`: the link of the agent
  // comes up with it. Returns the port for local workers; 0: there is none.
  Result<int> resume(const CarriedCoordinator& carried, agent::LinkUp place);
  // A reason why another program in this process could not continue; nothing if it could.
  std::optional<std::string> objection_to_upgrade() const;
  // The server that leads the job; null if another node does.
  CoordinatorServer* leader() const { return leader_.get(); }

  // The agent's link to leader(): finds the address under which other nodes see this machine, which
  // is the master. LinkUp or LinkDown follows.
  void dial();

  // Listens as a standby that resumes the job from this record. Returns the port.
  Result<int> stand_by(const std::string& record);
  // See agent::Stand and agent::TakeOver.
  void stand(const link::Join& own, bool is_transfer);
  // leader() lost leadership. It is kept, because it may become the leader again.
  void step_down();

  // The run is over; `goes_on`: a later run continues the job. Returns whether there is a
  // --restart-state file. Then `done` is called once it is written.
  bool finish_restart_state(bool goes_on, std::function<void()> done);

 private:
  Result<std::unique_ptr<CoordinatorServer>> make();
  Result<void> listen(const ListenOptions& listen, RestartState before);
  void lead(std::unique_ptr<CoordinatorServer> server);
  void open_door();
  CoordinatorOptions options() const;
  std::string job_of_restart_state() const;
  void keep_restart_state();
  Result<RestartState> take_restart_state();
  void place_found(const Result<std::vector<std::string>>& addresses);

  asio::io_context& context_;
  RunInputs& inputs_;
  LinkSecurity& security_;
  Callbacks callbacks_;
  std::unique_ptr<CoordinatorServer> leader_;
  std::unique_ptr<CoordinatorServer> standby_;  // if this node may host the job later
  std::unique_ptr<CoordinatorServer> retired_;  // if this node hosted it before
  int standby_port_ = 0;
  std::optional<agent::LinkUp> place_;             // known, and not used yet
  std::optional<RestartStateFile> restart_state_;  // with --restart-state, while leader_ is set
};

}  // namespace cpprun::io
