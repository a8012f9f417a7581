// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/io/contest_host.h"

#include <utility>

#include "rendezvous/io/event_loop.h"

namespace cpprun {

ContestHost::ContestHost(asio::io_context& context, ContestOptions options,
                         const EtcdAccess& access, std::shared_ptr<TlsClientContext> tls, Told told,
                         std::unique_ptr<LeaseGuard> guard)
    : told_(std::move(told)),
      guard_(std::move(guard)),
      client_(context, access, std::move(tls)),
      timer_(context, [this] { driver_.advance(); }),
      driver_({.now = boot_now,
               .perform = [this](const contest::Action& action) { perform(action); },
               .arm = [this](std::optional<TimePoint> at) { timer_.arm(at); }}) {
  options.endpoints = access.endpoints;
  driver_.begin(Contest(std::move(options)));
}

void ContestHost::start() {
  driver_.start([](Contest& contest, TimePoint now) { return contest.advance(now); });
}

void ContestHost::perform(const contest::Action& action) {
  if (const auto* const will = std::get_if<contest::Will>(&action)) {
    if (guard_ != nullptr) guard_->keep(*will);
    return;
  }
  const auto* const ask = std::get_if<contest::Ask>(&action);
  if (ask == nullptr) return told_(action);
  client_.ask(ask->lane, ask->endpoint, ask->request, ask->patience,
              [this, id = ask->id](etcd::Heard heard) {
                driver_.post(contest::Answered{id, std::move(heard)});
              });
}

}  // namespace cpprun
