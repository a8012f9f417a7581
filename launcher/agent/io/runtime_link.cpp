// SPDX-License-Identifier: BSD-3-Clause
// How the runtime reaches its coordinator, which may be in this process, and how this node's
// workers reach their store. The loop is in runtime.cpp.

#include <fmt/format.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <utility>

#include "launcher/agent/agent_text.h"
#include "launcher/agent/coordinator_link.h"
#include "launcher/agent/io/runtime.h"
#include "launcher/plan/io/addresses.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/meeting_place.h"
#include "proto/bounds.h"
#include "rendezvous/status/door_places.h"

namespace cpprun::io {

// Creates the coordinator itself, or a client for it.
Result<void> Runtime::open_coordinator() {
  const auto hosting = decide_hosting(
      inputs_.config,
      {.host_name = inputs_.host, .interfaces = inputs_.interfaces, .addresses_of = addresses_of});
  if (!hosting) return tl::unexpected<Error>(hosting.error());
  if (*hosting != Hosting::never) {
    const auto hosted = host_coordinator();
    if (hosted || *hosting == Hosting::must) return hosted;
  }
  return look_for_coordinator();
}

std::unique_ptr<CoordinatorServer> Runtime::make_coordinator() {
  return std::make_unique<CoordinatorServer>(
      context_,
      CoordinatorServer::Callbacks{
          .to_local_agent = [this](link::Message m) { post(agent::Heard{std::move(m)}); },
          .note = [this](const Note& note) { hear_coordinator(note); },
          .done =
              [this] {
                if (exit_) leave_when_everything_is_said();
              },
          .node_changed = [this](const auto& change) { note(event_log::NodeChanged{change}); },
          .round_over =
              [this](const auto& root) {
                attempts_.judged(root);
                if (restart_state_) restart_state_->keep(coordinator_->restart_state());
              },
          .ordered = [this](const auto& answered) { note(event_log::Ordered{answered}); },
          .events_wanted = [this] { tell_kept(); },
          .leads_until = [this](auto until) { post(agent::LeadsUntil{until}); },
          .leads = [this] { lead(); },
          .leads_again = [this] { lead_again(); },
          .door_opened = [this](const std::string& path) { watchdog_.set_door(path); }});
}

CoordinatorOptions Runtime::coordinator_options() const {
  const Config& config = inputs_.config;
  return {.only = terms_of(join_message(config, {}, {})),
          .options = {.lease = config.lease(),
                      .status_interval = bounds::status_interval,
                      .last_call = config.last_call,
                      .standby = config.may_have_standby()}};
}

void Runtime::open_door() {
  coordinator_->open_door(*inputs_.side,
                          {.folders = own_door_folders(inputs_.environment, ::geteuid()),
                           .after = bounds::door_opens_after,
                           .patience = bounds::disk_patience_at_end});
}

Result<void> Runtime::host_coordinator() {
  Config& config = inputs_.config;
  coordinator_ = make_coordinator();
  auto secure = security_.for_hosting();
  if (!secure) return tl::unexpected<Error>(secure.error());
  if (*secure) coordinator_->require_secret(*std::move(secure));
  auto before = take_restart_state();
  if (!before) return tl::unexpected<Error>(before.error());
  CoordinatorOptions options = coordinator_options();
  options.options.restarts_before = *std::move(before);
  const auto listening =
      coordinator_->open({.host = listening_address(config.endpoint),
                          .port = static_cast<std::uint16_t>(config.endpoint.port)},
                         std::move(options), PlainStore::refused,
                         {.access = config.status_access, .names = {config.endpoint.host}});
  if (!listening) {
    coordinator_.reset();
    restart_state_.reset();
    return failure(with_port_cure(listening.error().reason));
  }
  config.endpoint.port = listening->port;
  open_door();
  return {};
}

// A standalone job gets a new id each time.
std::string Runtime::job_of_restart_state() const {
  const bool is_standalone = inputs_.config.rendezvous == RendezvousMode::standalone;
  return is_standalone ? "standalone" : inputs_.config.job;
}

void Runtime::keep_restart_state() {
  const auto& path = inputs_.config.restart_state_file;
  if (path.empty()) return;
  restart_state_.emplace(
      context_, *inputs_.side, path, job_of_restart_state(),
      [this](const std::string& sentence) { pump_.say(messages_.warning(sentence)); });
}

// What the job used before this run, if there is a --restart-state file.
Result<RestartState> Runtime::take_restart_state() {
  const auto& path = inputs_.config.restart_state_file;
  if (path.empty()) return RestartState{};
  auto before = RestartStateFile::read(path, job_of_restart_state(), *inputs_.side);
  if (!before) return before;
  keep_restart_state();
  if (before->restarts_used > 0) {
    pump_.say(messages_.note(goes_on_text(before->restarts_used, path)));
  }
  return before;
}

Result<void> Runtime::look_for_coordinator() {
  const auto secure = security_.for_dialing();
  if (!secure) return tl::unexpected<Error>(secure.error());
  introduction_.use(*secure);
  client_ = make_client(inputs_.config.endpoint, *secure);
  return {};
}

std::unique_ptr<LinkClient> Runtime::make_client(const Endpoint& at,
                                                 std::shared_ptr<SecureContext> secure) {
  client_at_ = at;
  return std::make_unique<LinkClient>(
      context_, at.host, at.port,
      LinkClient::Callbacks{
          .up =
              [this](const std::string& local) {
                link_is_new_ = true;
                introduction_.begin(client_->other_addresses(), client_at_.port, who_asks(),
                                    [this, local] {
                                      post(agent::LinkUp{.local_address = local,
                                                         .local_store_port = local_store_port_});
                                    });
              },
          .message = [this](link::Message m) { post(agent::Heard{std::move(m)}); },
          .streams =
              [this](std::string_view frame) {
                return forwarder_ ? forwarder_->streams().hear(frame) : std::string();
              },
          .room =
              [this] {
                if (forwarder_) forwarder_->streams().go_on();
              },
          .down =
              [this](std::string reason) {
                introduction_.end();
                const auto& failed = client_->failed();
                post(agent::LinkDown{std::move(reason), failed.addresses, failed.refused});
              }},
      std::move(secure));
}

Result<void> Runtime::open_local_store() {
  if (inputs_.config.store != StoreWay::local) return {};
  if (coordinator_) {
    const auto port = coordinator_->open_local_store();
    if (!port) return tl::unexpected<Error>(port.error());
    local_store_port_ = *port;
    return {};
  }
  return open_forwarder();
}

Result<void> Runtime::open_forwarder() {
  auto forwarder = StoreForwarder::open(
      context_,
      {.has_room = [this] { return !link_is_new_ && client_->has_room(); },
       .send = [this](std::string_view frame) { client_->send_bytes(frame); },
       .refused =
           [this](const PeerAddress& peer, const std::string& why) {
             hear_coordinator({.ordinary = false, .peer = peer, .text = "refused: " + why});
           }});
  if (!forwarder) return tl::unexpected<Error>(forwarder.error());
  forwarder_ = *std::move(forwarder);
  local_store_port_ = forwarder_->port();
  return {};
}

// Identifies this node to the coordinator, on links to every address of the master's name.
link::WhoHosts Runtime::who_asks() const {
  return {.job = inputs_.config.job,
          .host = inputs_.host,
          .pid = static_cast<int>(::getpid()),
          .agent = agent_number_,
          .joins = true};
}

// Finds the address under which other nodes see this machine, which is the master.
void Runtime::find_own_place() {
  const std::string& master = inputs_.config.endpoint.host;
  if (auto place = place_alone(inputs_.config, literal_address(master))) {
    place->local_store_port = local_store_port_;
    return post(std::move(*place));
  }
  look_up(context_, master, [this](const auto& found) { place_found(found); });
}

void Runtime::place_found(const Result<std::vector<std::string>>& addresses) {
  if (!addresses) {
    const std::string& why = addresses.error().reason;
    coordinator_->local_agent_waits(unresolved_for_others(inputs_.config, why));
    post(agent::LinkDown{why});
    return;
  }
  const int port = inputs_.config.endpoint.port;
  auto place = place_among_nodes(*addresses, local_address_towards(addresses->front(), port));
  place.local_store_port = local_store_port_;
  post(std::move(place));
}

// --- actions of the agent ------------------------------------------------------------------------

void Runtime::on(const agent::Dial& action) {
  inputs_.config.endpoint = action.at;
  if (coordinator_) return find_own_place();
  introduction_.end();
  if (!client_ || client_at_ != action.at) {
    const auto secure = security_.for_dialing();  // never fails here: it succeeded at the start
    // This code may run in a callback of the old client, so destroy that later.
    if (client_) asio::post(context_, [old = std::shared_ptr<LinkClient>(std::move(client_))] {});
    introduction_.use(secure.value_or(nullptr));
    client_ = make_client(action.at, secure.value_or(nullptr));
  }
  client_->dial(action.step);
}

void Runtime::on(const agent::SpeakForWorkers&) {
  link_is_new_ = false;
  if (forwarder_) forwarder_->streams().begin_link();
}

void Runtime::on(const agent::Say& action) {
  if (coordinator_) {
    coordinator_->hear_local_agent(action.message);
    return;
  }
  const auto* const join = std::get_if<link::Join>(&action.message);
  if (forwarder_ && join != nullptr && join->after == RoundNumber{}) {
    forwarder_->streams().end_round();
  }
  client_->send(action.message);
}

void Runtime::on(const agent::AskWhoHosts& action) {
  askers_.clear();
  const auto secure = security_.for_dialing();  // never fails here: it succeeded at the start
  for (const std::string& address : action.addresses) {
    const std::size_t at = askers_.size();
    askers_.push_back(std::make_unique<LinkClient>(
        context_, address, action.port,
        LinkClient::Callbacks{.up = [this, at, question = action.question](
                                        const std::string&) { askers_[at]->send(question); },
                              .message =
                                  [this](const link::Message& answer) {
                                    const auto* hosts = std::get_if<link::Hosts>(&answer);
                                    if (hosts != nullptr) post(agent::Answered{*hosts});
                                  },
                              // No reply is the normal case. The agent asks again.
                              .down = [](const std::string&) {}},
        secure.value_or(nullptr)));
    askers_[at]->dial();
  }
}

void Runtime::on(const agent::HangUp& hang_up) {
  if (coordinator_) {
    coordinator_->local_agent_left();
    return;
  }
  introduction_.end();
  if (hang_up.breaks) {
    client_->break_off();
  } else {
    client_->hang_up();
  }
}

}  // namespace cpprun::io
