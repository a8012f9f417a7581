// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The Coordinator with its ports: accepts agents' links and the workers' store connections, passes
// events to the state machine and performs its actions. It also serves the agent in the same
// process, whose link is a function call and not a socket.
//
// When it hosts one job, links and the job's store share one port. In a daemon, the main port
// serves links and a plain store for any client. Each job's store has another port, because
// PyTorch's store clients do not send the name of their job.

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proto/state_machine.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/held_messages.h"
#include "rendezvous/coordinator/http_routes.h"
#include "rendezvous/coordinator/io/carried_coordinator.h"
#include "rendezvous/coordinator/io/node_streams.h"
#include "rendezvous/coordinator/io/replicated_coordinator.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/coordinator/io/tls_acceptor.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/link_channel.h"
#include "rendezvous/status/daemon_snapshot.h"
#include "rendezvous/status/event_ring.h"
#include "rendezvous/status/io/control_socket.h"
#include "rendezvous/status/io/status_server.h"
#include "rendezvous/status/status_access.h"
#include "rendezvous/status/status_json.h"
#include "rendezvous/store/io/connection_driver.h"
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/io/machine_memory.h"

namespace cpprun {

// Who has read access over HTTP on the main port, and under which names of this machine.
struct StatusOptions {
  StatusAccess access = StatusAccess::none;
  HostNames names = {};  // in addition to its host name, its addresses and localhost
};

// Whether a daemon's main port also has a store for any client. With a secret it has none, because
// PyTorch's clients cannot prove that they hold it.
enum class PlainStore { served, refused, behind_secret };

class CoordinatorServer : public ReplicatedCoordinator {
 public:
  struct Callbacks {
    // For the agent in this process.
    std::function<void(link::Message)> to_local_agent;
    // For the log.
    std::function<void(Note)> note;
    // The hosted job is over and all nodes have been notified.
    std::function<void()> done;
    // For event logs. A daemon has none.
    std::function<void(const coordinator::NodeChange&)> node_changed = {};
    // A round has ended and another follows: the failure that ended it.
    std::function<void(const link::Failure&)> round_over = {};
    // A worker is restarted alone, which uses a restart of the job.
    std::function<void()> worker_restarted = {};
    // A command of an operator and its result.
    std::function<void(const coordinator::Answered&)> ordered = {};
    // Describes an action for that job as an event, or returns nothing. Used by a daemon.
    std::function<std::optional<std::string>(const std::string& job, const coordinator::Action&)>
        event_of = {};
    // A client asks for events: pending ones have to be reported now.
    std::function<void()> events_wanted = {};
    // Used with options.keeps_records. keep_record gets what a successor has to know of the job,
    // before any node gets what follows from it. forget_record is called when the job is over. If
    // the result is not 0, what follows is sent only after kept() with that number.
    std::function<std::uint64_t(const std::string& job, const std::string& record)> keep_record =
        {};
    std::function<std::uint64_t(const std::string& job)> forget_record = {};
    // The daemon's own status.
    std::function<DaemonSnapshot()> daemon = {};
    // Swaps the roles of this daemon and a standby, then reports the result to `then`.
    std::function<void(std::function<void(const CommandResult&)> then)> hand_over = {};
    // Called whenever the end of the hosted job's leadership changes; nothing: no end.
    std::function<void(std::optional<TimePoint> until)> leads_until = {};
    // The standby is now the job's leader.
    std::function<void()> leads = {};
    // The former leader has resumed.
    std::function<void()> leads_again = {};
    // Another cpprund wants to be a standby of this one, and has proved that it holds a secret of
    // `owner`. The callee takes over its link (LinkChannel::listen()).
    std::function<void(std::shared_ptr<LinkChannel>, const link::Follow&, const PeerAddress&,
                       const std::string& owner)>
        follower = {};
    // The control socket exists at that path and has to be removed later.
    std::function<void(const std::string& path)> door_opened = {};
  };

  // `limits` bound what store clients may use. By default their memory depends on the machine's
  // size.
  CoordinatorServer(asio::io_context& context, Callbacks callbacks,
                    const ConnectionLimits& limits = {.memory = memory_of_this_machine()});
  ~CoordinatorServer() override;
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  // Before the destructor, where a forked child may have copies of the descriptors: ends all
  // connections and frees the ports all the same.
  void shut_down();

  // Opens the port (0: the kernel picks one) and returns the actual one. With `options.only`, that
  // job exists from here on, and its store_port is filled in. Without it, this is a daemon. `plain`
  // is for daemons only. There is no read access unless `status` grants it.
  Result<Listening> open(const ListenOptions& listen, CoordinatorOptions options,
                         PlainStore plain = PlainStore::served, StatusOptions status = {});
  // After open(): the address of the status page for a browser on this machine, such as
  // "http://127.0.0.1:29500/". Empty if there is no read access over that address.
  std::string status_page() const;
  // With `options.only`: what the status shows of that job besides what its nodes report.
  void set_hosted_job(HostedJob job) { hosted_job_ = std::move(job); }

  // After open(): resumes a job from the record that another coordinator has kept. `store_log` is
  // the complete log of its store (StoreLog), if there is one.
  void recover(JobRecord record, std::optional<std::string> store_log = {});
  void wait_for(CommitSource source, std::uint64_t number) override;
  void kept(CommitSource source, std::uint64_t through) override;
  StoreLogs& logs() override { return logs_; }

  // What the stores of all jobs hold.
  std::uint64_t store_bytes() const { return connections_.accounting().bytes_held(); }
  // With `options.only`, for another program in this process: what it needs to continue. Nothing if
  // a request of a store client is half done, or if a command is still to be answered: retry.
  std::optional<CarriedCoordinator> carried();
  // The other side: open() with the port of `carried`, and then this, before any other call.
  // Returns the port for local workers; 0: there is none.
  Result<int> resume(const CarriedCoordinator& carried);

  // After open() with `stands_by`: the latest record of the job's coordinator, and whether the
  // agent in this process votes for this standby (Coordinator::VoteRequest).
  void succeed(JobRecord record);
  void stand(const link::Join& own, bool is_transfer) {
    tell(Coordinator::VoteRequest{own, is_transfer});
  }

  // --- one of several daemons ---
  void lead(link::Members members) override { tell(Coordinator::Leads{std::move(members)}); }
  void let_in() override { tell(Coordinator::LetsIn{}); }
  void change_members(std::vector<std::string> places) override {
    tell(Coordinator::MembersChanged{std::move(places)});
  }
  std::map<std::string, std::string> follow(const Coordinator::Follows& follows) override;
  void leader_until(std::optional<TimePoint> until) override;
  std::optional<TimePoint> speaks_until() const override { return speaks_until_; }
  std::size_t link_count() const override { return channels_.size(); }
  std::map<std::string, std::string> records() const override;
  void recover_hosts(std::vector<Exclusions::Entry> hosts) override;
  void recover_with_replica(JobRecord record) override;
  Result<void> begin_replica(const std::string& job, RoundNumber round) override;
  Result<void> add_to_replica(const std::string& job, std::string_view bytes) override;
  void replica_is_whole(const std::string& job) override;
  void end_replica(const std::string& job) override;
  void end_replicas(const std::map<std::string, std::string>& but_of) override;

  // Before open(): a client that wants a link, or the status of jobs, has to prove that it holds a
  // secret of that context. Links without TLS are rejected.
  void require_secret(std::shared_ptr<SecureContext> secure, HolderOf holder_of = nullptr);

  // Opens the control socket, if read access is granted at all; see ControlSocket.
  void open_door(HelperProcesses& side, DoorPlan plan);
  // Another process will remove the socket.
  void hand_over_door();
  // No longer accepts clients there.
  void close_door() { door_.reset(); }
  // Opens the hosted job's store for the workers of this machine, when stores are local: a loopback
  // port for processes of this user only. Returns the port.
  Result<int> open_local_store(const ListenOptions& options = {.host = "127.0.0.1"});
  // Keeps an event, a JSON object as in docs/events.md, and sends it to the clients that watch
  // events.
  void tell_event(const std::string& line, const std::string& owner = {});
  // The secrets of the required context have changed.
  void secrets_changed();
  bool shows_events() const { return status_ != nullptr; }
  bool is_watched() const { return status_ != nullptr && status_->watchers() > 0; }

  // Whether a worker of the hosted job has used its store since the round began.
  bool store_was_asked() const { return store_was_asked_; }
  // The restarts that the hosted job has used.
  const RestartState& restart_state() const;

  // The agent in this process joins, or sends a message.
  void hear_local_agent(const link::Message& message);
  // It cannot join yet; `why` is a clause for the other nodes.
  void local_agent_waits(const std::string& why) { tell(Coordinator::MasterWaits{why}); }
  // The agent in this process has closed its link.
  void local_agent_left();

 private:
  // The owner of the store behind one port.
  class Port;
  class JobPort;
  class LocalPort;
  class PlainPort;
  struct OpenPort {
    std::unique_ptr<Port> host;
    ListenerId listener{};
  };
  // A job's store while this process does not lead the job, behind the job's port.
  struct Replica {
    RoundNumber round{};
    Store store;
    std::unique_ptr<StoreReplay> replay;  // null: this process has led it until now
    bool is_whole = false;
  };

  LinkId links_before(const JobRecord& record);
  bool may_speak();
  void adopt_follower(LinkId link, const link::Follow& follow, const PeerAddress& peer,
                      const std::string& owner);
  Result<void> replay(const std::string& job, RoundNumber round, std::string_view log);
  void keep_as_replica(const std::string& job);
  void adopt_link(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes);
  void adopt_secure(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes);
  void show_holder(SecureHandshake::Done done, const PeerAddress& peer);
  void refuse_open_link(int socket, const PeerAddress& peer);
  void begin_link(const std::shared_ptr<LinkChannel>& channel, const PeerAddress& peer,
                  std::string owner = {});
  std::optional<asio::ip::tcp::socket> stream_of(FileDescriptor socket, const PeerAddress& peer);
  void refuse(const PeerAddress& peer, const std::string& why);
  void open_status(StatusOptions status);
  http::Response take_command(const http::Request& request, const StatusClient& client,
                              const HostNames& names);
  void open_store(const std::string& job, bool is_local);
  Result<int> open_port(const std::string& job, bool is_local);
  StreamRoutes::Callbacks callbacks_of_routes();
  StoreLogs::Callbacks callbacks_of_logs();
  void reset_store(const coordinator::ResetStore& reset);
  void restore_store(const std::string& job);
  std::string hear_streams(LinkId link, const PeerAddress& peer, std::string_view frame);
  void send_streams(LinkId link, std::string_view frame);
  void note_asked(const std::string& job);
  void close_store(const std::string& job, const std::string& reason);
  // If the agent in this process replies while a message to it is being delivered, the driver
  // queues the reply until all nodes have been sent what came before it. Otherwise a drain could
  // overtake the round that it ends.
  void tell(Coordinator::Event event) { coordinator_.post(std::move(event)); }
  void perform(const Coordinator::Action& action);
  void say(const Coordinator::Action& action);
  void tell_of(const Coordinator::Action& action);
  void show_record(const coordinator::ShowRecord& show);
  void hand_over(const coordinator::HandOver& wanted);
  void answered(const coordinator::Answered& answered);
  void answer_if_sure(const coordinator::Answered& answered);
  // Replies that it is unknown whether these commands were done.
  void leave_open(std::vector<coordinator::Answered> orders);
  void tell_lead();
  void arm(std::optional<TimePoint> deadline);

  asio::io_context& context_;
  Callbacks callbacks_;
  MachineTimer timer_;
  Driver<Coordinator> coordinator_;
  ListenOptions listen_;  // as requested for the main port; the jobs' ports use the same addresses
  std::unique_ptr<Port> main_port_;
  std::unordered_map<std::string, OpenPort> job_ports_;
  OpenPort local_port_;
  ConnectionSet connections_;
  EventRing events_;
  HostedJob hosted_job_;
  StatusAccess status_access_ = StatusAccess::none;
  std::unique_ptr<StatusServer> status_;     // set if there is read access
  std::unique_ptr<ControlSocket> door_;      // set if tools can connect
  std::optional<TlsAcceptor> tls_acceptor_;  // set if there is a secret
  HolderOf holder_of_;
  std::pair<std::string, std::string> last_owner_;  // a job, and its current or former owner
  std::optional<ConnectionDriver> driver_;
  std::unordered_map<LinkId, std::shared_ptr<LinkChannel>> channels_;
  // Bytes beyond the accounting's limits, for links whose address is at its limit: agents must
  // survive what their workers have stored.
  std::shared_ptr<std::uint64_t> link_reserve_;
  StreamRoutes routes_{connections_, callbacks_of_routes()};
  StoreLogs logs_{connections_, routes_, callbacks_of_logs()};
  std::map<std::string, std::unique_ptr<Replica>> replicas_;  // Invariant: each has its job's port.
  std::optional<TimePoint> speaks_until_;
  bool has_kept_quiet_ = false;        // a message was dropped since speaks_until_
  bool is_deposed_ = false;            // leadership lost, maybe in mid-decision; Follows comes next
  std::set<LinkId> missed_something_;  // links that close because they missed a message
  CommitQueue held_;
  LinkId last_link_before_{};  // of nodes whose links belonged to another coordinator
  LinkId last_link_{std::uint64_t{1} << 32};  // of links here; all of them are higher
  std::optional<LinkId> local_link_;
  std::uint64_t last_ticket_ = 0;          // of a command
  std::optional<CommandResult> answered_;  // the result of that command
  std::optional<TimePoint> leads_until_;   // the last reported value
  bool told_done_ = false;
  bool store_was_asked_ = false;
};

}  // namespace cpprun
