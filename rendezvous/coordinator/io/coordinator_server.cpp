// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/coordinator_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/link/bounds.h"
#include "proto/link/codec.h"
#include "proto/sniff.h"
#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/http_routes.h"
#include "rendezvous/coordinator/io/coordinator_ports.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/random_bytes.h"
#include "rendezvous/io/secure_connection.h"
#include "rendezvous/job/job_record_json.h"
#include "rendezvous/status/io/status_server.h"
#include "rendezvous/store/io/listener.h"
#include "rendezvous/store/memory_accounting.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {

namespace {

TimePoint now() {
  return boot_now();
}

ConnectionLimits with_room_for_links(ConnectionLimits limits) {
  limits.keeps_descriptors_for_links = !limits.shares_process;
  return limits;
}

ClockPair moment() {
  return {.now = now(), .wall = wall_now()};
}

// A successor must know the effect of a command before the operator sees it as done.
bool is_to_be_known(const coordinator::Answered& command) {
  return command.outcome.is_done() && !command.command.is_about_the_daemon();
}

Note note_of(const coordinator::Note& said) {
  return {.ordinary = false,
          .peer = {},
          .text = said.line,
          .level = said.level,
          .of_job = !said.of_unidentified};
}

}  // namespace

CoordinatorServer::CoordinatorServer(asio::io_context& context, Callbacks callbacks,
                                     const ConnectionLimits& limits)
    : context_(context),
      callbacks_(std::move(callbacks)),
      timer_(context, [this] { coordinator_.advance(); }),
      coordinator_({.now = now,
                    .perform = [this](const Coordinator::Action& action) { perform(action); },
                    .arm = [this](std::optional<TimePoint> deadline) { arm(deadline); },
                    // Report the new end of leadership before nodes receive a message that lets
                    // them vote: this process may be stopped between the two.
                    .decided = [this](const Coordinator::Actions&) { tell_lead(); }}),
      connections_(with_room_for_links(limits)),
      events_(fmt::format("{:016x}", random_word())),
      link_reserve_(std::make_shared<std::uint64_t>(limits.memory.bytes_max / 8)) {}

void CoordinatorServer::shut_down() {
  connections_.shut_down();
  for (auto& [link, channel] : channels_) channel->shut_down();
}

CoordinatorServer::~CoordinatorServer() {
  for (auto& [link, channel] : channels_) channel->forget();
}

Result<Listening> CoordinatorServer::open(const ListenOptions& listen, CoordinatorOptions options,
                                          PlainStore plain, StatusOptions status) {
  options.options.wall_offset = wall_now().time_since_epoch() - now().time_since_epoch();
  options.limits.newcomers =
      std::min(options.limits.newcomers, std::max<std::size_t>(descriptors_for_links() / 2, 1));
  listen_ = listen;
  std::unique_ptr<Port> host;
  if (options.only) {
    host = std::make_unique<JobPort>(*this, options.only->id);
  } else {
    host = std::make_unique<PlainPort>(*this, plain);
  }
  if (status.access != StatusAccess::none) {
    host->show_status();
    status_access_ = status.access;
    open_status(std::move(status));
  }
  auto listening = connections_.listen(*host, listen);
  if (!listening) return listening;
  // Each job's port is opened on the same addresses. Resolving the name again would block all nodes
  // while a name server does not respond, and might yield other addresses.
  listen_.hosts = listening->hosts;
  listen_.passed = -1;
  listen_.port = listening->port;
  if (options.only) {
    options.options.store_port = listening->port;
    job_ports_[options.only->id] = {std::move(host), listening->id};
  } else {
    main_port_ = std::move(host);
  }
  coordinator_.begin(Coordinator{std::move(options)});
  driver_.emplace(context_, connections_);
  return listening;
}

const RestartState& CoordinatorServer::restart_state() const {
  // There is exactly one job, from open() on.
  return coordinator_.machine().jobs_after("", 1).front()->rounds().policy().state();
}

// The log is replayed into a replica, like that of a leader.
void CoordinatorServer::recover(JobRecord record, std::optional<std::string> store_log) {
  const std::string job = record.job();
  const auto replayed = store_log ? replay(job, record.round, *store_log) : Result<void>();
  if (!replayed) {
    callbacks_.note(note_of({.line = fmt::format("job \"{}\": cannot restore the store of its "
                                                 "round from its log: {}",
                                                 job, replayed.error().reason),
                             .level = LogLevel::warning}));
  }
  store_log.reset();  // it may be as large as the store
  recover_with_replica(std::move(record));
}

Result<void> CoordinatorServer::replay(const std::string& job, RoundNumber round,
                                       std::string_view log) {
  if (auto begun = begin_replica(job, round); !begun) return begun;
  if (auto heard = add_to_replica(job, log); !heard) return heard;
  if (!replicas_.at(job)->replay->is_whole()) return failure("the log of the store is incomplete");
  replica_is_whole(job);
  return {};
}

std::optional<CarriedCoordinator> CoordinatorServer::carried() {
  const auto jobs = coordinator_.machine().jobs_after("", 1);
  if (jobs.empty() || !connections_.is_idle()) return std::nullopt;
  const std::string job = jobs.front()->terms().id;
  const ListenerId port = job_ports_.at(job).listener;
  CarriedCoordinator carried{.port = connections_.sockets_of(port),
                             .hosts = listen_.hosts,
                             .record = record_bytes(coordinator_.machine(), job, moment()),
                             .store_was_asked = store_was_asked_};
  if (local_port_.host) carried.local_port = connections_.sockets_of(local_port_.listener);
  if (door_) {
    carried.door = door_->descriptor();
    carried.door_path = door_->path();
  }
  StoreLog image;
  bool is_shown = false;
  connections_.with_sessions([&](StoreSessions& sessions) {
    std::vector<std::pair<ListenerId, bool>> ports = {{port, false}};
    if (local_port_.host) ports.emplace_back(local_port_.listener, true);
    for (const auto& [each, is_local] : ports) {
      if (!sessions.can_be_shown(each.value)) return;
    }
    routes_.show(job, image);
    for (const auto& [each, is_local] : ports) {
      sessions.show(each.value, [&](const StoreSessions::Shown& shown) {
        image.add({.kind = StoreRecord::Kind::session,
                   .client = shown.id,
                   .flags = shown.conversation,
                   .key = shown.inbox,
                   .bytes = shown.outbox});
        if (shown.socket < 0) return;  // it comes through a link
        carried.clients.push_back(
            {shown.id, shown.socket, shown.peer, shown.conversation, is_local});
      });
    }
    is_shown = true;
  });
  if (!is_shown || carried.record.empty()) return std::nullopt;
  write_contents(coordinator_.machine().store(job), image);
  if (image.is_lost()) return std::nullopt;
  carried.store = image.take();
  return carried;
}

Result<int> CoordinatorServer::resume(const CarriedCoordinator& carried) {
  auto record = read_job_record(carried.record, moment());
  if (!record) return failure("the job's record " + record.error().reason);
  const std::string job = record->job();
  const RoundNumber round = record->round;
  const LinkId first = links_before(*record);
  tell(Coordinator::Recovered{*std::move(record), first, /*has_store=*/true});
  store_was_asked_ = carried.store_was_asked;
  int local_port = 0;
  if (!carried.local_port.empty()) {
    const auto opened = open_local_store({.adopted = carried.local_port});
    if (!opened) return opened;
    local_port = *opened;
  }
  const ListenerId port = job_ports_.at(job).listener;
  StoreReplay replay({.connections = connections_,
                      .routes = routes_,
                      .listener = port,
                      .store = coordinator_.machine().store(job),
                      .job = job,
                      .round = round});
  const auto of_local_port = [&](void (StoreSessions::*step)(std::uint32_t)) {
    if (!local_port_.host) return;
    connections_.with_sessions(
        [&](StoreSessions& sessions) { (sessions.*step)(local_port_.listener.value); });
  };
  of_local_port(&StoreSessions::begin_replay);
  for (const CarriedCoordinator::Client& each : carried.clients) {
    const auto here = connections_.adopt(each.is_local ? local_port_.listener : port, each.socket,
                                         each.peer, each.conversation);
    if (!here) return failure("a connection of a worker to its store: " + here.error().reason);
    replay.adopt(each.id, *here);
  }
  if (auto heard = replay.hear(carried.store); !heard) {
    return failure("the job's store: " + heard.error().reason);
  }
  replay.end();
  of_local_port(&StoreSessions::end_replay);
  if (coordinator_.machine().find(job)->terms().store_is_local) logs_.begin(job, round);
  if (door_ && carried.door >= 0) door_->adopt(carried.door, carried.door_path);
  return local_port;
}

// Reserves a link number for each node of the record until it reconnects on its own link. That link
// gets a higher number, even if the node is connected here already.
LinkId CoordinatorServer::links_before(const JobRecord& record) {
  const LinkId first{last_link_before_.value + 1};
  last_link_before_.value += record.nodes.size();
  return first;
}

void CoordinatorServer::succeed(JobRecord record) {
  const LinkId first = links_before(record);
  tell(Coordinator::RecordReceived{std::move(record), first});
}

// In parts, so that other messages can pass between them.
void CoordinatorServer::show_record(const coordinator::ShowRecord& show) {
  const auto found = channels_.find(show.link);
  if (found == channels_.end()) return;
  const JobRecord record = coordinator_.machine().record_of(show.job);
  const std::string bytes = job_record_bytes(record, moment());
  constexpr std::size_t most = bounds::record_part_bytes_max;
  const std::size_t parts = (bytes.size() + most - 1) / most;
  // A job with so large a record gets no standby.
  if (parts > static_cast<std::size_t>(bounds::record_parts_max)) return;
  for (std::size_t part = 0; part < parts; ++part) {
    found->second->send(link::Record{.round = record.round,
                                     .part = static_cast<int>(part),
                                     .parts = static_cast<int>(parts),
                                     .bytes = bytes.substr(part * most, most)});
  }
}

void CoordinatorServer::tell_lead() {
  if (!callbacks_.leads_until) return;
  const auto jobs = coordinator_.machine().jobs_after("", 1);
  const auto until = jobs.empty() ? std::nullopt : jobs.front()->leadership().leads_until();
  if (std::exchange(leads_until_, until) != until) callbacks_.leads_until(until);
}

void CoordinatorServer::open_status(StatusOptions status) {
  HostNames names = own_host_names(std::move(status.names));
  const auto answers = [this, names = std::move(names)](http::Request request,
                                                        const StatusClient& client) {
    // The Host check is against DNS rebinding. A browser that is tricked in that way has no
    // credential, so requests with a credential skip the check.
    if (client.credential) request.host.clear();
    if (request.method == http::Method::post) return take_command(request, client, names);
    const auto owner = client.credential ? client.credential->owner : std::nullopt;
    if (asks_for_events(request) && is_for_us(names, request)) {
      if (callbacks_.events_wanted) callbacks_.events_wanted();
      return events_answer(events_, request, owner);
    }
    const auto daemon =
        callbacks_.daemon ? std::optional(callbacks_.daemon()) : std::optional<DaemonSnapshot>();
    const Viewer viewer{.status_page = status_page(),
                        .may_control = may_control(client, ::geteuid()).has_value(),
                        .hosted = hosted_job_};
    auto response = answer(coordinator_.machine(), names, moment(), request, owner, daemon, viewer);
    // A request for worker statistics makes the nodes send newer ones for the next request.
    auto looked = response.status < 300 ? looked_at(request) : std::nullopt;
    if (looked) tell(std::move(*looked));
    return response;
  };
  const auto refused = [this](std::string line) {
    callbacks_.note({.ordinary = false, .peer = {}, .text = std::move(line)});
  };
  StatusServer::Callbacks callbacks{
      .answer = answers, .refused = refused, .accounting = connections_.shared_accounting()};
  if (tls_acceptor_) {
    callbacks.credential = [this](const http::Request& request) {
      return credential_of(request, tls_acceptor_->secure(), wall_now(), holder_of_);
    };
  }
  status_ = std::make_unique<StatusServer>(context_, status.access, std::move(callbacks));
}

std::string CoordinatorServer::status_page() const {
  if (!status_) return {};
  // None is an address: it listens on all of them.
  const auto address = std::ranges::find_if(listen_.hosts, is_one_address);
  const std::string host = address == listen_.hosts.end() ? "127.0.0.1" : *address;
  if (!is_loopback(host) && status_access_ != StatusAccess::network) return {};
  return fmt::format("http://{}/", to_string(Endpoint{host, listen_.port}));
}

// A request is handled in its own turn of the event loop, so the coordinator is idle and has
// replied when `tell` returns. There are two exceptions, whose replies follow under the ticket: a
// handover, which takes a while, and a command whose effect is not durable yet.
http::Response CoordinatorServer::take_command(const http::Request& request,
                                               const StatusClient& client, const HostNames& names) {
  auto taken = order_of(request, client, {names, ::geteuid()});
  if (auto* refused = std::get_if<http::Response>(&taken)) return std::move(*refused);
  const OperatorCommand& command = std::get<OperatorCommand>(taken);
  if (auto objection = objection_of_owners(command, client, coordinator_.machine())) {
    return *std::move(objection);
  }
  answered_.reset();
  tell(Coordinator::Ordered{++last_ticket_, std::get<OperatorCommand>(std::move(taken))});
  if (!answered_) return {.ticket = last_ticket_};
  return answer_to(*answered_);
}

void CoordinatorServer::hand_over(const coordinator::HandOver& wanted) {
  const auto then = [this, wanted](const CommandResult& outcome) {
    tell(Coordinator::HandedOver{wanted.ticket, wanted.command, outcome});
  };
  if (callbacks_.hand_over) return callbacks_.hand_over(then);
  then({CommandResult::Kind::not_now, "this cpprund has no standby"});
}

// Only the leader may report that something is done, and its successor must know of it.
void CoordinatorServer::answer_if_sure(const coordinator::Answered& answered) {
  if (may_speak()) return this->answered(answered);
  leave_open({answered});
}

void CoordinatorServer::leave_open(std::vector<coordinator::Answered> orders) {
  for (coordinator::Answered& command : orders) {
    command.outcome = {CommandResult::Kind::not_now,
                       "this cpprund may have lost leadership, and the next leader may not know of "
                       "this command: check whether it was done, and repeat it if not"};
    answered(command);
  }
}

void CoordinatorServer::answered(const coordinator::Answered& answered) {
  if (answered.ticket == last_ticket_) answered_ = answered.outcome;
  if (status_) status_->answer(answered.ticket, answer_to(answered.outcome));
  if (callbacks_.ordered) callbacks_.ordered(answered);
}

void CoordinatorServer::open_door(HelperProcesses& side, DoorPlan plan) {
  if (!status_) return;
  door_ = std::make_unique<ControlSocket>(
      context_, side, std::move(plan),
      ControlSocket::Callbacks{
          .client = [this](FileDescriptor socket,
                           std::uint32_t user) { status_->adopt_local(std::move(socket), user); },
          .trouble =
              [this](std::string line) {
                callbacks_.note({.ordinary = false, .peer = {}, .text = std::move(line)});
              },
          .opened = callbacks_.door_opened});
}

void CoordinatorServer::hand_over_door() {
  if (door_) door_->hand_over();
}

void CoordinatorServer::tell_event(const std::string& line, const std::string& owner) {
  if (status_ && !line.empty()) status_->tell_watchers(events_.add(line, owner), &owner);
}

void CoordinatorServer::hear_local_agent(const link::Message& message) {
  if (!local_link_) {
    local_link_ = LinkId{++last_link_.value};
    tell(Coordinator::Opened{{.link = *local_link_, .peer = "127.0.0.1", .local = true}});
  }
  tell(Coordinator::Said{*local_link_, message});
}

void CoordinatorServer::local_agent_left() {
  if (!local_link_) return;
  tell(Coordinator::Closed{*std::exchange(local_link_, std::nullopt), "its cpprun exits"});
}

void CoordinatorServer::tell_of(const Coordinator::Action& action) {
  const std::string* job = nullptr;
  if (const auto* say = std::get_if<coordinator::Say>(&action)) {
    job = coordinator_.machine().job_of(say->link);
  } else if (const auto* note = std::get_if<coordinator::Note>(&action)) {
    job = &note->job;
  } else if (const auto* change = std::get_if<coordinator::NodeChange>(&action)) {
    job = &change->job;
  } else if (const auto* closed = std::get_if<coordinator::CloseStore>(&action)) {
    job = &closed->job;
  }
  if (const auto* answered = std::get_if<coordinator::Answered>(&action)) {
    job = &answered->command.job;  // empty if it is about a host
  } else if (job == nullptr || job->empty()) {
    return;
  }
  const auto line = callbacks_.event_of(*job, action);
  if (!line) return;
  // The last event of a job comes after the job is deleted.
  const auto owner = coordinator_.machine().owner_of(*job);
  if (owner) last_owner_ = {*job, *owner};
  tell_event(*line, last_owner_.first == *job ? last_owner_.second : std::string());
}

void CoordinatorServer::kept(CommitSource source, std::uint64_t through) {
  held_.kept(source, through);
  std::set<LinkId> have_room;
  while (const auto word = held_.next()) {
    if (const auto* const action = std::get_if<coordinator::Action>(&*word)) {
      say(*action);
      continue;
    }
    const auto& frame = std::get<CommitQueue::Frame>(*word);
    const auto found = channels_.find(frame.link);
    if (found == channels_.end() || !may_speak()) continue;
    found->second->send_bytes(frame.bytes);
    have_room.insert(frame.link);
  }
  for (const LinkId link : have_room) routes_.go_on(link);
}

// Sends what is for nodes, and replies to commands.
void CoordinatorServer::say(const Coordinator::Action& action) {
  if (const auto* const hang_up = std::get_if<coordinator::HangUp>(&action)) {
    const auto found = channels_.find(hang_up->link);
    if (found != channels_.end()) found->second->hang_up(hang_up->reason);
    return;
  }
  if (const auto* const command = std::get_if<coordinator::Answered>(&action)) {
    return answer_if_sure(*command);
  }
  const auto& [link, message] = std::get<coordinator::Say>(action);
  // NotLeading may be sent at any time.
  if (!may_speak() && !std::holds_alternative<link::NotLeading>(message)) return;
  if (link == local_link_) {
    callbacks_.to_local_agent(message);
  } else if (const auto found = channels_.find(link); found != channels_.end()) {
    found->second->send(message);
  }
}

void CoordinatorServer::perform(const Coordinator::Action& action) {
  if (is_deposed_ && coordinator_.machine().follows()) is_deposed_ = has_kept_quiet_ = false;
  if (callbacks_.event_of) tell_of(action);
  const auto when_it_is_kept = [this, &action] {
    if (!held_.hold(action)) say(action);
  };
  std::visit(
      Overloaded{
          [&](const coordinator::Say& said) {
            const bool restarts = std::holds_alternative<link::RestartWorker>(said.message);
            if (restarts && callbacks_.worker_restarted) callbacks_.worker_restarted();
            when_it_is_kept();
          },
          [&](const coordinator::HangUp&) { when_it_is_kept(); },
          [this](const coordinator::ResetStore& reset) { reset_store(reset); },
          [this](const coordinator::OpenStore& opened) { open_store(opened.job, opened.is_local); },
          [this](const coordinator::CloseStore& closed) {
            // The job's store has become a replica, which keeps the port.
            if (replicas_.contains(closed.job)) return;
            close_store(closed.job, closed.reason);
            if (callbacks_.forget_record && !closed.goes_on) callbacks_.forget_record(closed.job);
          },
          [this](const coordinator::KeepRecord& keep) {
            if (!callbacks_.keep_record) return;
            const auto bytes = record_bytes(coordinator_.machine(), keep.job, moment());
            wait_for(CommitSource::record, bytes.empty() ? callbacks_.forget_record(keep.job)
                                                         : callbacks_.keep_record(keep.job, bytes));
          },
          [this](const coordinator::RestoreStore& restore) { restore_store(restore.job); },
          [this](const coordinator::ShowRecord& show) { show_record(show); },
          [this](const coordinator::Lead& lead) {
            lead.again ? callbacks_.leads_again() : callbacks_.leads();
          },
          [this](const coordinator::Note& said) {
            callbacks_.note(note_of(said));
            if (said.root && callbacks_.round_over) callbacks_.round_over(*said.root);
          },
          [this](const coordinator::NodeChange& change) {
            if (callbacks_.node_changed) callbacks_.node_changed(change);
          },
          [&](const coordinator::Answered& command) {
            if (!is_to_be_known(command)) return answered(command);
            when_it_is_kept();
          },
          [this](const coordinator::HandOver& wanted) { hand_over(wanted); },
      },
      action);
}

void CoordinatorServer::arm(std::optional<TimePoint> deadline) {
  if (coordinator_.machine().done() && !told_done_ && callbacks_.done) {
    told_done_ = true;
    asio::post(context_, [this] {
      // A node that has connected in the meantime has to be notified as well.
      told_done_ = coordinator_.machine().done();
      if (told_done_) callbacks_.done();
    });
  }
  timer_.arm(deadline);
}

// How a link starts: whether the agent has to prove that it holds the secret, and how much memory
// the link may use.

namespace {

// The memory that one link holds. It counts against its address's limit. A link at that limit may
// still hold a little if the reserve for links has room. Before its first message it may hold less.
class LinkMemory {
 public:
  LinkMemory(const std::shared_ptr<MemoryAccounting>& accounting, const PeerAddress& peer,
             std::shared_ptr<std::uint64_t> reserve)
      : memory_(accounting, peer), reserve_(std::move(reserve)) {}
  ~LinkMemory() { *reserve_ += excused_; }
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;

  void has_spoken() { most_excused_ = bounds::link_bytes_always; }
  // Returns why it must not hold that many bytes, or an empty string.
  std::string hold(std::size_t bytes) {
    const std::size_t with_link = bytes + bounds::link_idle_bytes;
    const bool is_more = with_link > memory_.bytes();
    std::string objection = memory_.hold(with_link);
    if (objection.empty()) return excuse(is_more ? 0 : std::min(excused_, with_link));
    const bool has_reserve = with_link <= *reserve_ + excused_;
    if (with_link > most_excused_ || !has_reserve) return objection;
    return excuse(with_link);
  }

 private:
  std::string excuse(std::size_t bytes) {
    *reserve_ = *reserve_ + excused_ - bytes;
    excused_ = bytes;
    return {};
  }

  PeerMemory memory_;
  std::size_t most_excused_ = bounds::link_idle_bytes;
  std::size_t excused_ = 0;
  std::shared_ptr<std::uint64_t> reserve_;  // what is left of the reserve
};

}  // namespace

void CoordinatorServer::require_secret(std::shared_ptr<SecureContext> secure, HolderOf whose) {
  holder_of_ = std::move(whose);
  const auto through = [this](SecureHandshake::Done done, const PeerAddress& peer) {
    if (!done.channel->is_valid_still()) {
      return refuse(peer, "its secret was removed during the TLS handshake");
    }
    const Protocol speaks = sniff(done.heard);
    if (speaks == Protocol::http && status_) return show_holder(std::move(done), peer);
    if (speaks != Protocol::link) {
      return refuse(peer, fmt::format("{} behind its secret", describe(done.heard)));
    }
    done.heard.erase(0, link::preamble.size());
    std::string owner = holder_of(holder_of_, done.channel->secret_id()).owner;
    begin_link(std::make_shared<LinkChannel>(std::move(done.socket), std::move(done.heard),
                                             std::move(done.channel)),
               peer, std::move(owner));
  };
  tls_acceptor_.emplace(
      context_, std::move(secure),
      TlsAcceptor::Callbacks{through, [this](const PeerAddress& peer,
                                             const std::string& reason) { refuse(peer, reason); }},
      connections_.shared_accounting());
}

void CoordinatorServer::secrets_changed() {
  if (status_) status_->end_holders();
}

// A tool that holds the secret has read access, and the control access of its user.
void CoordinatorServer::show_holder(SecureHandshake::Done done, const PeerAddress& peer) {
  auto credential = credential_of(done.channel->secret_id(), peer.host_text(), holder_of_);
  status_->adopt_holder(FileDescriptor(done.socket.release()), std::move(credential), peer,
                        std::move(done.channel), std::move(done.heard));
}

void CoordinatorServer::refuse(const PeerAddress& peer, const std::string& why) {
  callbacks_.note(
      {.ordinary = false, .peer = peer, .text = "refused: " + why, .peer_is = "client"});
}

std::optional<asio::ip::tcp::socket> CoordinatorServer::stream_of(FileDescriptor socket,
                                                                  const PeerAddress& peer) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  const bool is_v6 =
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
      address.ss_family == AF_INET6;
  asio::ip::tcp::socket stream{context_};
  asio::error_code error;
  stream.assign(is_v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.get(), error);
  if (error) {
    callbacks_.note({.ordinary = false,
                     .peer = peer,
                     .text = "cannot serve the connection: " + error.message(),
                     .peer_is = "agent"});
    return std::nullopt;
  }
  (void)socket.release();  // the stream owns it now
  return stream;
}

void CoordinatorServer::adopt_secure(FileDescriptor socket, const PeerAddress& peer,
                                     std::string first_bytes) {
  if (!tls_acceptor_) {
    // Tells a client that holds a secret that there is none here. If that cannot be sent, the
    // client sees the connection closed.
    (void)::send(socket.get(), no_secret_here.data(), no_secret_here.size(),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
    return refuse(peer, "the client uses a secret, but the server has none (--secret-file)");
  }
  if (auto stream = stream_of(std::move(socket), peer)) {
    tls_acceptor_->adopt(*std::move(stream), peer, std::move(first_bytes));
  }
}

void CoordinatorServer::adopt_link(FileDescriptor socket, const PeerAddress& peer,
                                   std::string first_bytes) {
  if (tls_acceptor_) return refuse_open_link(socket.get(), peer);
  auto stream = stream_of(std::move(socket), peer);
  if (!stream) return;
  first_bytes.erase(0, link::preamble.size());
  const auto channel = std::make_shared<LinkChannel>(*std::move(stream), std::move(first_bytes));
  channel->send_bytes(link::preamble);
  begin_link(channel, peer);
}

// Rejects a link without TLS. It reads nothing from the link and sends only the reason, nothing
// about any job.
void CoordinatorServer::refuse_open_link(int socket, const PeerAddress& peer) {
  const std::string answer =
      std::string(link::preamble) +
      link::encode(link::Refused{
          "this master requires a secret; start cpprun with its secret in --secret-file or in "
          "~/.config/cpprun/secret"});
  // If that cannot be sent, the client sees the connection closed.
  (void)::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  refuse(peer, "the client has no secret, but the server requires one");
}

void CoordinatorServer::begin_link(const std::shared_ptr<LinkChannel>& channel,
                                   const PeerAddress& peer, std::string owner) {
  const auto memory =
      std::make_shared<LinkMemory>(connections_.shared_accounting(), peer, link_reserve_);
  if (channel->is_secure()) memory->has_spoken();  // the peer holds the secret
  if (std::string objection = memory->hold(0); !objection.empty()) {
    channel->break_off();
    return refuse(peer, objection);
  }
  const LinkId link{++last_link_.value};
  channels_[link] = channel;
  channel->start(
      {.message =
           [this, link, peer, owner, memory](link::Message message) {
             memory->has_spoken();
             const auto* const follow = std::get_if<link::Follow>(&message);
             if (follow != nullptr && callbacks_.follower) {
               return adopt_follower(link, *follow, peer, owner);
             }
             tell(Coordinator::Said{link, std::move(message)});
           },
       .streams = [this, link,
                   peer](std::string_view frame) { return hear_streams(link, peer, frame); },
       .room = [this, link] { routes_.go_on(link); },
       .holds =
           [this, peer, memory](std::size_t bytes) {
             std::string objection = memory->hold(bytes);
             if (!objection.empty()) {
               callbacks_.note({.peer = peer, .text = "closed: " + objection, .peer_is = "agent"});
             }
             return objection;
           },
       .closed =
           [this, link](std::string reason) {
             const auto ended = channels_.extract(link);
             routes_.forget(link);
             const bool broke = !ended.empty() && ended.mapped()->broke();
             const bool has_missed = missed_something_.erase(link) > 0;
             const bool may_come_back = broke || has_missed || held_.holds_end_for(link);
             tell(Coordinator::Closed{link, std::move(reason), may_come_back});
           }});
  tell(Coordinator::Opened{
      {.link = link, .peer = peer.host_text(), .local = false, .owner = std::move(owner)}});
}

// How clients reach the jobs' stores: through a port for each of a daemon's jobs, through the links
// of a job's nodes, or through a loopback port for the workers of this machine.

void CoordinatorServer::open_store(const std::string& job, bool is_local) {
  if (replicas_.contains(job)) {
    asio::post(context_, [this, job] { tell(Coordinator::StoreReady{job, listen_.port}); });
    return;
  }
  const auto port = open_port(job, is_local);
  // Reply with a separate event: the coordinator is still handling the event that led here.
  asio::post(context_, [this, job, port] {
    if (port) {
      tell(Coordinator::StoreReady{job, *port});
    } else {
      tell(Coordinator::StoreFailed{job, port.error().reason});
    }
  });
}

// Returns the port to be named to the job's nodes. No client connects to a local store: its port is
// that of the links.
Result<int> CoordinatorServer::open_port(const std::string& job, bool is_local) {
  auto host = std::make_unique<JobPort>(*this, job);
  ListenOptions any_port = listen_;
  any_port.port = 0;
  any_port.streams_only = is_local;
  const auto listening = connections_.listen(*host, any_port);
  if (!listening) return tl::unexpected<Error>(listening.error());
  job_ports_[job] = {std::move(host), listening->id};
  return is_local ? listen_.port : listening->port;
}

void CoordinatorServer::close_store(const std::string& job, const std::string& reason) {
  if (job_ports_.contains(job)) logs_.end(job);
  routes_.forget(job);
  const auto port = job_ports_.extract(job);
  if (!port.empty()) connections_.stop_listening(port.mapped().listener, reason);
}

void CoordinatorServer::reset_store(const coordinator::ResetStore& reset) {
  store_was_asked_ = false;
  // The same decision may have restored keys of the previous round.
  if (coordinator_.machine().knows(reset.job)) coordinator_.machine().store(reset.job).clear();
  if (job_ports_.contains(reset.job)) logs_.end(reset.job);
  routes_.forget(reset.job);
  connections_.close_clients(job_ports_.at(reset.job).listener, reset.reason);
  if (local_port_.host) connections_.close_clients(local_port_.listener, reset.reason);
  const Job* const job = coordinator_.machine().find(reset.job);
  if (is_deposed_) return;
  if (job != nullptr && job->terms().store_is_local) logs_.begin(reset.job, job->round().number());
}

// Runs before any message of the job's nodes is processed.
void CoordinatorServer::restore_store(const std::string& job) {
  const auto found = replicas_.extract(job);
  if (found.empty()) return;
  Replica& replica = *found.mapped();
  OpenPort& port = job_ports_.at(job);
  if (replica.replay != nullptr) {
    replica.replay->end();
  } else {
    connections_.with_sessions(
        [&](StoreSessions& sessions) { sessions.end_replay(port.listener.value); });
  }
  coordinator_.machine().store(job) = std::move(replica.store);
  static_cast<JobPort&>(*port.host).keep(nullptr);
  logs_.go_on(job, replica.round, replica.replay.get());
}

void CoordinatorServer::note_asked(const std::string& job) {
  store_was_asked_ = true;
  const Job* const its = coordinator_.machine().find(job);
  if (its != nullptr && !its->rounds().time().training()) tell(Coordinator::StoreAsked{job});
}

Result<int> CoordinatorServer::open_local_store(const ListenOptions& options) {
  auto host = std::make_unique<LocalPort>(*this, job_ports_.begin()->first);
  const auto listening = connections_.listen(*host, options);
  if (!listening) return tl::unexpected<Error>(listening.error());
  host->set_port(listening->port);
  local_port_ = {std::move(host), listening->id};
  return listening->port;
}

// --- through links -------------------------------------------------------------------------------

StreamRoutes::Callbacks CoordinatorServer::callbacks_of_routes() {
  const auto channel_of = [this](LinkId link) {
    const auto found = channels_.find(link);
    return found == channels_.end() ? nullptr : found->second.get();
  };
  return {
      .seat_of = [this](LinkId link) { return coordinator_.machine().seat_of(link); },
      .listener_of = [this](const std::string& job) { return job_ports_.at(job).listener; },
      .loop = {.has_room =
                   [this, channel_of](LinkId link) {
                     const LinkChannel* const channel = channel_of(link);
                     return channel != nullptr && channel->has_room() &&
                            held_.bytes_for(link) < bounds::held_link_bytes_max;
                   },
               .send = [this](LinkId link, std::string_view frame) { send_streams(link, frame); },
               .soon = [this](std::function<void()> what) { asio::post(context_, what); },
               .now = boot_now},
      .log_of = [this](const std::string& job) { return logs_.log_of(job); }};
}

StoreLogs::Callbacks CoordinatorServer::callbacks_of_logs() {
  return {.listener_of = [this](const std::string& job) { return job_ports_.at(job).listener; },
          .store_of = [this](const std::string& job) -> const Store& {
            return coordinator_.machine().store(job);
          },
          .soon = [this](std::function<void()> what) { asio::post(context_, std::move(what)); }};
}

std::string CoordinatorServer::hear_streams(LinkId link, const PeerAddress& peer,
                                            std::string_view frame) {
  std::string reason = routes_.hear(link, peer, frame);
  // Requests without a reply are logged no later than those with one.
  if (const std::string* const job = coordinator_.machine().job_of(link)) logs_.flush(*job);
  return reason;
}

// The log is replicated before any node receives a reply that depends on it.
void CoordinatorServer::send_streams(LinkId link, std::string_view frame) {
  if (const std::string* const job = coordinator_.machine().job_of(link)) logs_.flush(*job);
  if (!may_speak() || held_.hold(link, frame)) return;
  const auto found = channels_.find(link);
  if (found != channels_.end()) found->second->send_bytes(frame);
}

// The coordinator as one of several daemons: its replicas while another one leads, how it takes
// over with them, and how it keeps its own jobs as replicas when it loses leadership.

// Another daemon may lead from speaks_until_ on, even if this process was suspended until then.
bool CoordinatorServer::may_speak() {
  const bool may = !is_deposed_ && (!speaks_until_ || boot_now() < *speaks_until_);
  if (!may) has_kept_quiet_ = true;
  return may;
}

void CoordinatorServer::leader_until(std::optional<TimePoint> until) {
  speaks_until_ = until;
  if (!has_kept_quiet_ || !may_speak()) return;
  has_kept_quiet_ = false;
  const std::string reason =
      "messages may be missing: this cpprund was not sure for a moment that it is the leader";
  const auto channels = channels_;
  for (const auto& [link, channel] : channels) {
    // Nothing broke, but the agent has to reconnect for what it has missed.
    missed_something_.insert(link);
    channel->hang_up(reason);
  }
}

void CoordinatorServer::wait_for(CommitSource source, std::uint64_t number) {
  if (!is_deposed_) held_.wait_for(source, number);
}

// The link is no longer an agent's. This is called while its first message is processed, so the
// link is handed over later.
void CoordinatorServer::adopt_follower(LinkId link, const link::Follow& follow,
                                       const PeerAddress& peer, const std::string& owner) {
  asio::post(context_, [this, link, follow, peer, owner] {
    const auto found = channels_.extract(link);
    if (found.empty()) return;
    tell(Coordinator::Closed{link, "the peer is a standby cpprund"});
    callbacks_.follower(found.mapped(), follow, peer, owner);
  });
}

// --- leadership lost -----------------------------------------------------------------------------

std::map<std::string, std::string> CoordinatorServer::records() const {
  return all_records(coordinator_.machine(), moment());
}

std::map<std::string, std::string> CoordinatorServer::follow(const Coordinator::Follows& follows) {
  std::map<std::string, std::string> kept;
  if (!coordinator_.machine().follows() && !is_deposed_) {
    // Decisions that were not sent yet are never sent, even if this interrupts one.
    is_deposed_ = true;
    leave_open(held_.drop_all());
    has_kept_quiet_ = false;
    kept = records();
    for (const auto& [job, record] : kept) keep_as_replica(job);
    logs_.end_all();
  }
  tell(follows);
  return kept;
}

// The job's workers no longer get replies. Their requests, and the replies sent so far, are kept.
void CoordinatorServer::keep_as_replica(const std::string& job) {
  const Job* const its = coordinator_.machine().find(job);
  const bool has_store =
      its != nullptr && its->terms().store_is_local && !its->has_lost_its_store() &&
      its->round().phase() != Round::Phase::gathering && job_ports_.contains(job);
  if (!has_store) return;
  auto replica = std::make_unique<Replica>();
  replica->round = its->round().number();
  replica->store = std::move(coordinator_.machine().store(job));
  replica->is_whole = true;
  const OpenPort& port = job_ports_.at(job);
  static_cast<JobPort&>(*port.host).keep(&replica->store);
  connections_.with_sessions(
      [&](StoreSessions& sessions) { sessions.begin_replay(port.listener.value); });
  replicas_[job] = std::move(replica);
}

// --- another daemon leads ------------------------------------------------------------------------

Result<void> CoordinatorServer::begin_replica(const std::string& job, RoundNumber round) {
  end_replica(job);
  if (const auto opened = open_port(job, /*is_local=*/true); !opened) {
    return tl::unexpected<Error>(opened.error());
  }
  auto replica = std::make_unique<Replica>();
  replica->round = round;
  const OpenPort& port = job_ports_.at(job);
  static_cast<JobPort&>(*port.host).keep(&replica->store);
  replica->replay = std::make_unique<StoreReplay>(StoreReplay::Context{.connections = connections_,
                                                                       .routes = routes_,
                                                                       .listener = port.listener,
                                                                       .store = replica->store,
                                                                       .job = job,
                                                                       .round = round});
  replicas_[job] = std::move(replica);
  return {};
}

Result<void> CoordinatorServer::add_to_replica(const std::string& job, std::string_view bytes) {
  const auto found = replicas_.find(job);
  if (found == replicas_.end() || found->second->replay == nullptr) return {};
  auto heard = found->second->replay->hear(bytes);
  if (!heard) end_replica(job);
  return heard;
}

void CoordinatorServer::replica_is_whole(const std::string& job) {
  if (const auto found = replicas_.find(job); found != replicas_.end()) {
    found->second->is_whole = true;
  }
}

void CoordinatorServer::end_replica(const std::string& job) {
  const auto replica = replicas_.extract(job);
  if (replica.empty()) return;
  close_store(job, "this replica of the store was dropped");
}

void CoordinatorServer::end_replicas(const std::map<std::string, std::string>& but_of) {
  std::vector<std::string> jobs;
  for (const auto& [job, replica] : replicas_) {
    if (!but_of.contains(job)) jobs.push_back(job);
  }
  for (const std::string& job : jobs) end_replica(job);
}

// --- this daemon leads ---------------------------------------------------------------------------

void CoordinatorServer::recover_hosts(std::vector<Exclusions::Entry> hosts) {
  tell(Coordinator::HostsExcluded{std::move(hosts)});
}

void CoordinatorServer::recover_with_replica(JobRecord record) {
  const std::string job = record.job();
  const auto found = replicas_.find(job);
  const bool has_store = found != replicas_.end() && found->second->is_whole &&
                         found->second->round == record.round &&
                         (found->second->replay == nullptr || found->second->replay->is_whole());
  if (!has_store) end_replica(job);
  const LinkId first = links_before(record);
  tell(Coordinator::Recovered{std::move(record), first, has_store});
}

}  // namespace cpprun
