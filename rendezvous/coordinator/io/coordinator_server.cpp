// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/coordinator_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <set>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/coordinator/io/coordinator_ports.h"
#include "rendezvous/coordinator/records.h"
#include "rendezvous/coordinator/token_routes.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/random_bytes.h"
#include "rendezvous/job/job_record_json.h"
#include "rendezvous/status/io/status_server.h"
#include "rendezvous/store/io/listener.h"

namespace cpprun {

namespace {

TimePoint now() {
  return boot_now();
}

WallTime wall_now() {
  return std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
}

ConnectionLimits with_room_for_links(ConnectionLimits limits) {
  limits.keeps_descriptors_for_links = true;
  return limits;
}

Moment moment() {
  return {.now = now(), .wall = wall_now()};
}

// Whoever leads on has to know of it before anybody hears that it was done.
bool is_to_be_known(const coordinator::Answered& order) {
  return order.outcome.is_done() && !order.order.is_about_the_daemon();
}

Note note_of(const coordinator::Note& said) {
  return {.ordinary = false,
          .peer = {},
          .text = said.line,
          .level = said.level,
          .of_job = !said.of_stranger};
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
                    // Before any node hears that it may vote: we may be stopped between the two.
                    .decided = [this](const Coordinator::Actions&) { tell_lead(); }}),
      connections_(with_room_for_links(limits)),
      events_(fmt::format("{:016x}", random_word())),
      link_reserve_(std::make_shared<std::uint64_t>(limits.memory.bytes_max / 8)) {}

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
    open_status(std::move(status));
  }
  auto listening = connections_.listen(*host, listen);
  if (!listening) return listening;
  // Each job's port is opened on the same addresses. To look the name up again would hold everybody
  // up for as long as a name server is silent, and might find others.
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
  // There is one job, from open() on.
  return coordinator_.machine().jobs_after("", 1).front()->policy().state();
}

void CoordinatorServer::recover(JobRecord record, std::optional<std::string> store_log) {
  const LinkId first = links_before(record);
  const bool has_store = store_log.has_value();
  if (has_store) logs_before_[record.job()] = *std::move(store_log);
  tell(Coordinator::Recovered{std::move(record), first, has_store});
}

// Each of its nodes has a number until it is back on a link of its own. That is a later one, even
// where it is here already.
LinkId CoordinatorServer::links_before(const JobRecord& record) {
  const LinkId first{last_link_before_.value + 1};
  last_link_before_.value += record.nodes.size();
  return first;
}

void CoordinatorServer::succeed(JobRecord record) {
  const LinkId first = links_before(record);
  tell(Coordinator::Succession{std::move(record), first});
}

// In parts, between which the link says what else there is.
void CoordinatorServer::show_record(const coordinator::ShowRecord& show) {
  const auto found = channels_.find(show.link);
  if (found == channels_.end()) return;
  const JobRecord record = coordinator_.machine().record_of(show.job);
  const std::string bytes = job_record_bytes(record, moment());
  constexpr std::size_t most = bounds::record_part_bytes_max;
  const std::size_t parts = (bytes.size() + most - 1) / most;
  // So large a job has no standby.
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
  const auto until = jobs.empty() ? std::nullopt : jobs.front()->leads_until();
  if (std::exchange(leads_until_, until) != until) callbacks_.leads_until(until);
}

void CoordinatorServer::open_status(StatusOptions status) {
  HostNames names = own_host_names(std::move(status.names));
  const auto answers = [this, names = std::move(names)](http::Request request,
                                                        const Visitor& visitor) {
    // A browser that was lured here by another name has no credential to show.
    if (visitor.credential) request.host.clear();
    if (request.method == http::Method::post) return take_order(request, visitor, names);
    const auto owner = visitor.credential ? visitor.credential->owner : std::nullopt;
    if (asks_for_events(request) && is_for_us(names, request)) {
      if (callbacks_.events_wanted) callbacks_.events_wanted();
      return events_answer(events_, request, owner);
    }
    const auto daemon =
        callbacks_.daemon ? std::optional(callbacks_.daemon()) : std::optional<DaemonSnapshot>();
    auto response = answer(coordinator_.machine(), names, moment(), request, owner, daemon);
    // Whoever was shown something sees more the next time.
    auto looked = response.status < 300 ? looked_at(request) : std::nullopt;
    if (looked) tell(std::move(*looked));
    return response;
  };
  const auto refused = [this](std::string line) {
    callbacks_.note({.ordinary = false, .peer = {}, .text = std::move(line)});
  };
  StatusServer::Callbacks callbacks{
      .answer = answers, .refused = refused, .ledger = connections_.shared_ledger()};
  if (secure_door_) {
    callbacks.credential = [this](const http::Request& request) {
      return credential_of(request, secure_door_->secure(), wall_now(), holder_of_);
    };
  }
  status_ = std::make_unique<StatusServer>(context_, status.access, std::move(callbacks));
}

// A visitor is answered from a turn of the event loop of its own, so the coordinator is at rest and
// has answered when `tell` is back; but for what takes a moment, which is answered when it is over,
// and for what could still be lost, which is answered when it cannot.
http::Response CoordinatorServer::take_order(const http::Request& request, const Visitor& visitor,
                                             const HostNames& names) {
  auto taken = order_of(request, visitor, {names, ::geteuid()});
  if (auto* refused = std::get_if<http::Response>(&taken)) return std::move(*refused);
  const Order& order = std::get<Order>(taken);
  if (auto objection = objection_of_owners(order, visitor, coordinator_.machine())) {
    return *std::move(objection);
  }
  answered_.reset();
  tell(Coordinator::Ordered{++last_ticket_, std::get<Order>(std::move(taken))});
  if (!answered_) return {.ticket = last_ticket_};
  return answer_to(*answered_);
}

void CoordinatorServer::hand_over(const coordinator::HandOver& wanted) {
  const auto then = [this, wanted](const OrderOutcome& outcome) {
    tell(Coordinator::HandedOver{wanted.ticket, wanted.order, outcome});
  };
  if (callbacks_.hand_over) return callbacks_.hand_over(then);
  then({OrderOutcome::Kind::not_now, "nobody stands by for this one"});
}

// Only a leader can say that something is done, and whoever comes after it must know of it.
void CoordinatorServer::answer_if_sure(const coordinator::Answered& answered) {
  if (may_speak()) return this->answered(answered);
  leave_open({answered});
}

void CoordinatorServer::leave_open(std::vector<coordinator::Answered> orders) {
  for (coordinator::Answered& order : orders) {
    order.outcome = {OrderOutcome::Kind::not_now,
                     "this cpprund may not lead any more, and whoever leads on may not know of it: "
                     "look whether it was done, and ask again if it was not"};
    answered(order);
  }
}

void CoordinatorServer::answered(const coordinator::Answered& answered) {
  if (answered.ticket == last_ticket_) answered_ = answered.outcome;
  if (status_) status_->answer(answered.ticket, answer_to(answered.outcome));
  if (callbacks_.ordered) callbacks_.ordered(answered);
}

void CoordinatorServer::open_door(SideProcesses& side, DoorPlan plan) {
  if (!status_) return;
  door_ = std::make_unique<ToolDoor>(
      context_, side, std::move(plan),
      ToolDoor::Callbacks{
          .visitor = [this](FileDescriptor socket,
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
  tell(Coordinator::Closed{*std::exchange(local_link_, std::nullopt), "its cpprun ends"});
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
    job = &answered->order.job;  // none: it is about a host
  } else if (job == nullptr || job->empty()) {
    return;
  }
  const auto line = callbacks_.event_of(*job, action);
  if (!line) return;
  // The last word of a job is said when it is forgotten already.
  const auto owner = coordinator_.machine().owner_of(*job);
  if (owner) last_owner_ = {*job, *owner};
  tell_event(*line, last_owner_.first == *job ? last_owner_.second : std::string());
}

void CoordinatorServer::kept(Keeping keeping, std::uint64_t through) {
  held_.kept(keeping, through);
  std::set<LinkId> have_room;
  while (const auto word = held_.next()) {
    if (const auto* const action = std::get_if<coordinator::Action>(&*word)) {
      say(*action);
      continue;
    }
    const auto& frame = std::get<HeldWords::Frame>(*word);
    const auto found = channels_.find(frame.link);
    if (found == channels_.end() || !may_speak()) continue;
    found->second->send_bytes(frame.bytes);
    have_room.insert(frame.link);
  }
  for (const LinkId link : have_room) routes_.go_on(link);
}

// What is for nodes, and for whoever has given an order.
void CoordinatorServer::say(const Coordinator::Action& action) {
  if (const auto* const hang_up = std::get_if<coordinator::HangUp>(&action)) {
    const auto found = channels_.find(hang_up->link);
    if (found != channels_.end()) found->second->hang_up(hang_up->reason);
    return;
  }
  if (const auto* const order = std::get_if<coordinator::Answered>(&action)) {
    return answer_if_sure(*order);
  }
  const auto& [link, message] = std::get<coordinator::Say>(action);
  // That it leads no more may be said at any time.
  if (!may_speak() && !std::holds_alternative<link::NotLeading>(message)) return;
  if (link == local_link_) {
    callbacks_.to_local_agent(message);
  } else if (const auto found = channels_.find(link); found != channels_.end()) {
    found->second->send(message);
  }
}

void CoordinatorServer::perform(const Coordinator::Action& action) {
  if (is_deposed_ && coordinator_.machine().follows()) is_deposed_ = has_kept_quiet_ = false;
  if (status_ && callbacks_.event_of) tell_of(action);
  const auto when_it_is_kept = [this, &action] {
    if (!held_.hold(action)) say(action);
  };
  std::visit(
      Overloaded{
          [&](const coordinator::Say&) { when_it_is_kept(); },
          [&](const coordinator::HangUp&) { when_it_is_kept(); },
          [this](const coordinator::ResetStore& reset) { reset_store(reset); },
          [this](const coordinator::OpenStore& opened) { open_store(opened.job, opened.is_local); },
          [this](const coordinator::CloseStore& closed) {
            // What there was of it is a replica now, or nothing.
            if (replicas_.contains(closed.job)) return;
            close_store(closed.job, closed.reason);
            if (callbacks_.forget_record && !closed.goes_on) callbacks_.forget_record(closed.job);
          },
          [this](const coordinator::KeepRecord& keep) {
            if (!callbacks_.keep_record) return;
            const auto bytes = record_bytes(coordinator_.machine(), keep.job, moment());
            wait_for(Keeping::record, bytes.empty() ? callbacks_.forget_record(keep.job)
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
          [&](const coordinator::Answered& order) {
            if (!is_to_be_known(order)) return answered(order);
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
      // Somebody may have come meanwhile, who is to be told as well.
      told_done_ = coordinator_.machine().done();
      if (told_done_) callbacks_.done();
    });
  }
  timer_.arm(deadline);
}

}  // namespace cpprun
