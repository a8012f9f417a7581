// SPDX-License-Identifier: BSD-3-Clause
// How the runtime stands by for a coordinator that is another node's, and takes its place. Who it
// is to be and when is the agent's and the coordinator's to say; the loop is in runtime.cpp.

#include <fmt/format.h>

#include <utility>

#include "launcher/agent/io/runtime.h"
#include "launcher/io/wall_clock.h"
#include "launcher/plan/meeting_place.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun::io {

// At the master's port, which is open wherever somebody cares for it, or at any.
void Runtime::on(const agent::StandBy& action) {
  const auto cannot = [this](const std::string& why) {
    pump_.say(messages_.warning(
        "this node cannot go on with the job if its master is lost (--standby): " + why));
  };
  auto record = read_job_record(action.record, {.now = boot_now(), .wall = wall_now()});
  if (!record) return cannot("what the master leaves of it " + record.error().reason);
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

// It is in the middle of saying so, and goes on in its new place.
void Runtime::lead() {
  coordinator_ = std::move(standby_);
  serve_workers_here();
  post(agent::Leads{});
}

// Before this node has stepped down, everything is still as it was.
void Runtime::lead_again() {
  if (!coordinator_) {
    coordinator_ = std::move(retired_);
    serve_workers_here();
    keep_restart_state();
  }
  post(agent::Leads{.again = true});
}

// The coordinator is in this process, and with it the store.
void Runtime::serve_workers_here() {
  if (client_) client_->hang_up();
  introduction_.end();
  forwarder_.reset();
  if (const auto opened = open_local_store(); !opened) {
    pump_.say(messages_.error("its workers will find no store: " + opened.error().reason));
  }
  open_door();
}

// What it has kept for a requeue stays as it is: whoever leads now knows more.
void Runtime::on(const agent::StepDown&) {
  tell_kept();
  coordinator_->local_agent_left();
  // What it knows of the job is of a round that is over: whoever leads is asked.
  coordinator_->close_door();
  retired_ = std::move(coordinator_);
  restart_state_.reset();
  if (inputs_.config.store != StoreWay::local) return;
  if (const auto opened = open_forwarder(); !opened) {
    pump_.say(messages_.error("its workers will find no store: " + opened.error().reason));
  }
}

}  // namespace cpprun::io
