// SPDX-License-Identifier: BSD-3-Clause
// How the runtime hosts a standby for another node's coordinator, and takes its place. The agent
// and the coordinator decide which node does so and when. The loop is in runtime.cpp.

#include <fmt/format.h>

#include <utility>

#include "launcher/agent/io/runtime.h"
#include "launcher/io/wall_clock.h"
#include "launcher/plan/meeting_place.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun::io {

// Prefer the master's port, which firewalls are most likely to allow. Otherwise use any port.
void Runtime::on(const agent::StandBy& action) {
  const auto cannot = [this](const std::string& why) {
    pump_.say(messages_.warning(
        "this node cannot continue the job if its master is lost (--standby): " + why));
  };
  auto record = read_job_record(action.record, {.now = boot_now(), .wall = wall_now()});
  if (!record) return cannot("the record from the master " + record.error().reason);
  const Config& config = inputs_.config;
  if (!standby_) {
    auto server = make_coordinator();
    auto secure = security_.for_hosting();
    if (!secure) return cannot(secure.error().reason);
    if (*secure) server->require_secret(*std::move(secure));
    CoordinatorOptions options = coordinator_options();
    options.stands_by = true;
    const StatusOptions status{.access = config.status_access, .names = {}};
    const std::string host = listening_address(config.endpoint);
    const auto port = static_cast<std::uint16_t>(config.endpoint.port);
    auto listening =
        server->open({.host = host, .port = port}, options, PlainStore::refused, status);
    if (!listening) {
      listening = server->open({.host = host, .port = 0}, options, PlainStore::refused, status);
    }
    if (!listening) return cannot(listening.error().reason);
    standby_ = std::move(server);
    standby_port_ = listening->port;
    Config own = config;
    own.endpoint.port = listening->port;
    const auto open = security_.has_secret() ? std::nullopt : open_port_note(own, inputs_.host);
    if (open) pump_.say(messages_.note(*open));
  }
  standby_->succeed(*std::move(record));
  post(agent::StandsBy{action.round, standby_port_});
}

void Runtime::on(const agent::Stand& action) {
  if (standby_) standby_->stand(action.own);
}

void Runtime::on(const agent::TakeOver& action) {
  if (standby_) standby_->take_over(action.own);
}

// Called by standby_ itself. The object stays alive and only changes its owner.
void Runtime::lead() {
  coordinator_ = std::move(standby_);
  serve_workers_here();
  post(agent::Leads{});
}

// If this node has not stepped down yet, nothing has to be restored.
void Runtime::lead_again() {
  if (!coordinator_) {
    coordinator_ = std::move(retired_);
    serve_workers_here();
    keep_restart_state();
  }
  post(agent::Leads{.again = true});
}

// The coordinator is in this process, and so is the store.
void Runtime::serve_workers_here() {
  if (client_) client_->hang_up();
  introduction_.end();
  forwarder_.reset();
  if (const auto opened = open_local_store(); !opened) {
    pump_.say(messages_.error("the workers of this node cannot reach their store: " +
                              opened.error().reason));
  }
  open_door();
}

// The restart-state file stays as it is: the current leader has newer data.
void Runtime::on(const agent::StepDown&) {
  tell_kept();
  coordinator_->local_agent_left();
  // Its status is about a finished round. Clients have to ask the current leader.
  coordinator_->close_door();
  retired_ = std::move(coordinator_);
  restart_state_.reset();
  if (inputs_.config.store != StoreWay::local) return;
  if (const auto opened = open_forwarder(); !opened) {
    pump_.say(messages_.error("the workers of this node cannot reach their store: " +
                              opened.error().reason));
  }
}

}  // namespace cpprun::io
