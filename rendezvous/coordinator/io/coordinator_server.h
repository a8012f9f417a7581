// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The Coordinator with its ports: accepts agents' links and the workers' store connections, tells
// the machine what happened and performs what it answers. Also the seat of the agent that lives in
// the same process: its link is a call, not a socket.
//
// Hosting one job, links and that job's store share one port. As a daemon, the port serves links
// and a plain store for whoever wants one; each job's store has a further port of its own, because
// PyTorch's store clients do not say which job they are of.

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
#include "rendezvous/coordinator/io/led_coordinator.h"
#include "rendezvous/coordinator/io/node_streams.h"
#include "rendezvous/coordinator/io/secure_door.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/link_channel.h"
#include "rendezvous/status/daemon_snapshot.h"
#include "rendezvous/status/event_ring.h"
#include "rendezvous/status/io/status_server.h"
#include "rendezvous/status/io/tool_door.h"
#include "rendezvous/status/status_access.h"
#include "rendezvous/store/io/connection_driver.h"
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/io/machine_memory.h"

namespace cpprun {

// Who may look at the jobs by HTTP on the main port, and by which names of this machine.
struct StatusOptions {
  StatusAccess access = StatusAccess::none;
  HostNames names = {};  // beside its own, its addresses and localhost
};

// Whether a daemon's main port has a store for whoever comes, too. Where there is a secret nobody
// has: PyTorch's clients cannot prove that they hold it.
enum class PlainStore { served, refused, behind_secret };

class CoordinatorServer : public LedCoordinator {
 public:
  struct Callbacks {
    // For the agent in this process.
    std::function<void(link::Message)> to_local_agent;
    // For the log.
    std::function<void(Note)> note;
    // The hosted job is over and nobody is left to be told.
    std::function<void()> done;
    // For whoever keeps events; a daemon keeps none.
    std::function<void(const coordinator::NodeChange&)> node_changed = {};
    // A round is over and another follows: what broke it.
    std::function<void(const link::Failure&)> round_over = {};
    // What an operator has asked, and what became of it.
    std::function<void(const coordinator::Answered&)> ordered = {};
    // A daemon's own words on what is done for that job: an event, or nothing.
    std::function<std::optional<std::string>(const std::string& job, const coordinator::Action&)>
        event_of = {};
    // Somebody asks for events: what has not been told yet is to be told now.
    std::function<void()> events_wanted = {};
    // Where options.keeps_records: what the next coordinator has to know of that job, before
    // anybody hears of what follows; and that it is over. Not 0: nodes hear of what follows when
    // kept() was told that number.
    std::function<std::uint64_t(const std::string& job, const std::string& record)> keep_record =
        {};
    std::function<std::uint64_t(const std::string& job)> forget_record = {};
    // Of a daemon: what there is to show of it.
    std::function<DaemonSnapshot()> daemon = {};
    // The same and one that stands by are to change places; `then` is told what came of it.
    std::function<void(std::function<void(const OrderOutcome&)> then)> hand_over = {};
    // Until when the hosted job's coordinator may decide, whenever that changes; nothing: without
    // an end.
    std::function<void(std::optional<TimePoint> until)> leads_until = {};
    // It stood by for another, and leads the job from now on.
    std::function<void()> leads = {};
    // It led, had lost that, and resumes.
    std::function<void()> leads_again = {};
    // Another cpprund wants to stand by for this one, and has proven to hold a secret of `owner`:
    // its link is for whoever this tells (LinkChannel::listen()).
    std::function<void(std::shared_ptr<LinkChannel>, const link::Follow&, const PeerAddress&,
                       const std::string& owner)>
        follower = {};
    // The socket for tools is there, and has to be removed.
    std::function<void(const std::string& path)> door_opened = {};
  };

  // `limits` bound what store clients may use; by default the machine's size bounds their memory.
  CoordinatorServer(asio::io_context& context, Callbacks callbacks,
                    const ConnectionLimits& limits = {.memory = memory_of_this_machine()});
  ~CoordinatorServer() override;
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  // Opens the port (0: the kernel picks) and gives what it got. With `options.only` that job exists
  // from here on, and its store_port is filled in; without, this is a daemon.
  // `plain` is a daemon's choice. Nobody may look unless `status` says so.
  Result<Listening> open(const ListenOptions& listen, CoordinatorOptions options,
                         PlainStore plain = PlainStore::served, StatusOptions status = {});

  // After open(): goes on with a job of which another coordinator has kept that; with its store,
  // where the log of that is there (StoreLog), whole.
  void recover(JobRecord record, std::optional<std::string> store_log = {});
  void wait_for(Keeping keeping, std::uint64_t number) override;
  void kept(Keeping keeping, std::uint64_t through) override;
  StoreLogs& logs() override { return logs_; }

  // After open() with `stands_by`: what the coordinator would leave, and whether the agent in this
  // process votes for this one (Coordinator::Standing).
  void succeed(JobRecord record);
  void stand(const link::Join& own) { tell(Coordinator::Standing{own}); }
  // It leads, because the other coordinator leaves.
  void take_over(const link::Join& own) { tell(Coordinator::TakesOver{own}); }

  // --- one of several daemons ---
  void lead(link::Members members) override { tell(Coordinator::Leads{std::move(members)}); }
  void let_in() override { tell(Coordinator::LetsIn{}); }
  void change_members(std::vector<std::string> places) override {
    tell(Coordinator::MembersChanged{std::move(places)});
  }
  std::map<std::string, std::string> follow(const Coordinator::Follows& follows) override;
  void speak_until(std::optional<TimePoint> until) override;
  std::optional<TimePoint> speaks_until() const override { return speaks_until_; }
  std::size_t link_count() const override { return channels_.size(); }
  std::optional<std::uint64_t> epoch() const override { return coordinator_.machine().epoch(); }
  std::map<std::string, std::string> records() const override;
  void recover_hosts(std::vector<Exclusions::Entry> hosts) override;
  void recover_with_replica(JobRecord record) override;
  Result<void> begin_replica(const std::string& job, RoundNumber round) override;
  Result<void> add_to_replica(const std::string& job, std::string_view bytes) override;
  void replica_is_whole(const std::string& job) override;
  void end_replica(const std::string& job) override;
  void end_replicas(const std::map<std::string, std::string>& but_of) override;

  // Before open(): whoever wants a link, or the jobs, has to prove that it holds one of that
  // context's secrets. Whoever speaks the link without is refused.
  void require_secret(std::shared_ptr<SecureContext> secure, HolderOf holder_of = nullptr);

  // The socket for tools, where anybody may look at all; see ToolDoor.
  void open_door(SideProcesses& side, DoorPlan plan);
  // Somebody else removes it.
  void hand_over_door();
  // Nobody is let in any more.
  void close_door() { door_.reset(); }
  // The hosted job's store for the workers of this machine, where stores are local: a port of
  // loopback, for processes of this user alone. Gives its number.
  Result<int> open_local_store();
  // Keeps an event, a JSON object of docs/events.md, and tells it to whoever watches.
  void tell_event(const std::string& line, const std::string& owner = {});
  // The secrets of the context that was required are others now.
  void secrets_changed();
  bool shows_events() const { return status_ != nullptr; }
  bool is_watched() const { return status_ != nullptr && status_->watchers() > 0; }

  // Whether a worker of the hosted job has spoken to its store since the round began.
  bool store_was_asked() const { return store_was_asked_; }
  // What the hosted job has used of its restarts.
  const RestartState& restart_state() const;

  // The agent in this process takes its seat and speaks.
  void hear_local_agent(const link::Message& message);
  // It cannot yet; why, as a clause for the others.
  void local_agent_waits(const std::string& why) { tell(Coordinator::MasterWaits{why}); }
  // The agent in this process has hung up.
  void local_agent_left();

 private:
  // Who owns the store behind one port.
  class Port;
  class JobPort;
  class LocalPort;
  class PlainPort;
  struct OpenPort {
    std::unique_ptr<Port> host;
    ListenerId listener{};
  };
  // A job's store as another process has it, or had it, behind the port of that job.
  struct Replica {
    RoundNumber round{};
    Store store;
    std::unique_ptr<StoreReplay> replay;  // null: this process has decided it until now
    bool is_whole = false;
  };

  LinkId links_before(const JobRecord& record);
  bool may_speak();
  void adopt_follower(LinkId link, const link::Follow& follow, const PeerAddress& peer,
                      const std::string& owner);
  Result<void> open_replica_port(const std::string& job);
  void keep_as_replica(const std::string& job);
  void restore_replica(const std::string& job, Replica& replica);
  void adopt_link(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes);
  void adopt_secure(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes);
  void show_holder(SecureHandshake::Done done, const PeerAddress& peer);
  void refuse_open_link(int socket, const PeerAddress& peer);
  void begin_link(const std::shared_ptr<LinkChannel>& channel, const PeerAddress& peer,
                  std::string owner = {});
  std::optional<asio::ip::tcp::socket> stream_of(FileDescriptor socket, const PeerAddress& peer);
  void refuse(const PeerAddress& peer, const std::string& why);
  void open_status(StatusOptions status);
  http::Response take_order(const http::Request& request, const Visitor& visitor,
                            const HostNames& names);
  void open_store(const std::string& job, bool is_local);
  StreamRoutes::Callbacks callbacks_of_routes();
  StoreLogs::Callbacks callbacks_of_logs();
  void reset_store(const coordinator::ResetStore& reset);
  void restore_store(const std::string& job);
  std::string hear_streams(LinkId link, const PeerAddress& peer, std::string_view frame);
  void send_streams(LinkId link, std::string_view frame);
  void note_asked(const std::string& job);
  void close_store(const std::string& job, const std::string& reason);
  // What the agent in this process answers while its word is still being delivered waits in the
  // driver until everybody has been told what came before it: a drain must not overtake the round
  // it ends.
  void tell(Coordinator::Event event) { coordinator_.post(std::move(event)); }
  void perform(const Coordinator::Action& action);
  void say(const Coordinator::Action& action);
  void tell_of(const Coordinator::Action& action);
  void show_record(const coordinator::ShowRecord& show);
  void hand_over(const coordinator::HandOver& wanted);
  void answered(const coordinator::Answered& answered);
  void answer_if_sure(const coordinator::Answered& answered);
  // Whoever has given those orders hears that it is not known whether they were done.
  void leave_open(std::vector<coordinator::Answered> orders);
  void tell_lead();
  void arm(std::optional<TimePoint> deadline);

  asio::io_context& context_;
  Callbacks callbacks_;
  MachineTimer timer_;
  Driver<Coordinator> coordinator_;
  ListenOptions listen_;  // as the main port was asked for; the jobs' ports are alike
  std::unique_ptr<Port> main_port_;
  std::unordered_map<std::string, OpenPort> job_ports_;
  OpenPort local_port_;
  ConnectionSet connections_;
  EventRing events_;
  std::unique_ptr<StatusServer> status_;   // where somebody may look
  std::unique_ptr<ToolDoor> door_;         // and tools find it
  std::optional<SecureDoor> secure_door_;  // where there is a secret
  HolderOf holder_of_;
  std::pair<std::string, std::string> last_owner_;  // a job, and whose it is or was
  // One reference more for each connection that is carried to the status server.
  std::shared_ptr<int> pumps_ = std::make_shared<int>();
  std::optional<ConnectionDriver> driver_;
  std::unordered_map<LinkId, std::shared_ptr<LinkChannel>> channels_;
  // Bytes, beside the ledger's limit, for links whose address holds all it may: agents outlive what
  // their workers have stored.
  std::shared_ptr<std::uint64_t> link_reserve_;
  StreamRoutes routes_{connections_, callbacks_of_routes()};
  StoreLogs logs_{connections_, routes_, callbacks_of_logs()};
  std::unordered_map<std::string, std::string> logs_before_;  // of jobs that are to go on
  std::map<std::string, std::unique_ptr<Replica>> replicas_;  // Invariant: each has its job's port.
  std::optional<TimePoint> speaks_until_;
  bool has_kept_quiet_ = false;  // something was not told since then
  bool is_deposed_ = false;      // since the middle of a decision, and the coordinator will hear it
  std::set<LinkId> missed_something_;  // links that end for what they were not told
  HeldWords held_;
  LinkId last_link_before_{};                 // of nodes whose links another coordinator has had
  LinkId last_link_{std::uint64_t{1} << 32};  // here: all of them are later
  std::optional<LinkId> local_link_;
  std::uint64_t last_ticket_ = 0;         // of an order
  std::optional<OrderOutcome> answered_;  // that order
  std::optional<TimePoint> leads_until_;  // as it was told last
  bool told_done_ = false;
  bool store_was_asked_ = false;
};

}  // namespace cpprun
