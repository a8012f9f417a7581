// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/coordinator_client.h"

#include <asio/post.hpp>
#include <optional>
#include <utility>

#include "launcher/agent/bounds.h"
#include "proto/link/bounds.h"

namespace cpprun::io {

void Introduction::begin(std::vector<std::string> addresses, int port, const link::WhoHosts& who,
                         std::function<void()> done,
                         std::function<void(const link::Hosts&)> hosts) {
  end();
  links_.clear();
  if (addresses.size() > bounds::node_addresses_max) addresses.resize(bounds::node_addresses_max);
  if (addresses.empty()) return done();
  done_ = std::move(done);
  left_ = addresses.size();
  answered_.assign(addresses.size(), 0);
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    const auto ended = [this, at] {
      if (std::exchange(answered_[at], 1) == 0) one_is_done();
    };
    links_.push_back(std::make_unique<LinkClient>(
        context_, addresses[at], port,
        LinkClient::Callbacks{.up = [this, at, who](const std::string&) { links_[at]->send(who); },
                              .message =
                                  [ended, hosts](const link::Message& answer) {
                                    ended();
                                    const auto* found = std::get_if<link::Hosts>(&answer);
                                    if (found != nullptr && hosts) hosts(*found);
                                  },
                              .down = [ended](const std::string&) { ended(); }},
        secure_));
  }
  timeout_.expires_after(bounds::introduction_timeout);
  timeout_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled || left_ == 0) return;
    left_ = 1;
    one_is_done();
  });
  for (const auto& link : links_) link->dial();
}

void Introduction::end() {
  done_ = nullptr;
  left_ = 0;
  timeout_.cancel();
}

void Introduction::one_is_done() {
  if (left_ == 0 || --left_ > 0) return;
  timeout_.cancel();
  if (auto done = std::exchange(done_, nullptr)) done();
}

CoordinatorClient::CoordinatorClient(asio::io_context& context, LinkSecurity& security,
                                     link::WhoHosts self, Callbacks callbacks)
    : context_(context),
      security_(security),
      self_(std::move(self)),
      callbacks_(std::move(callbacks)),
      introduction_(context),
      inquiry_(context) {}

Result<void> CoordinatorClient::open(const Endpoint& at) {
  const auto secure = security_.for_dialing();
  if (!secure) return tl::unexpected<Error>(secure.error());
  introduction_.use(*secure);
  link_ = make_link(at, *secure);
  return {};
}

std::unique_ptr<LinkClient> CoordinatorClient::make_link(const Endpoint& at,
                                                         std::shared_ptr<SecureContext> secure) {
  at_ = at;
  return std::make_unique<LinkClient>(
      context_, at.host, at.port,
      LinkClient::Callbacks{
          .up =
              [this](const std::string& local) {
                is_new_ = true;
                introduction_.begin(link_->other_addresses(), at_.port, self_, [this, local] {
                  callbacks_.post(agent::LinkUp{.local_address = local});
                });
              },
          .message = [this](link::Message m) { callbacks_.post(agent::Heard{std::move(m)}); },
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
                const auto& failed = link_->failed();
                callbacks_.post(
                    agent::LinkDown{std::move(reason), failed.addresses, failed.refused});
              }},
      std::move(secure));
}

StoreForwarder::Callbacks CoordinatorClient::callbacks_of_store() {
  return {.has_room = [this] { return !is_new_ && link_->has_room(); },
          .send = [this](std::string_view frame) { link_->send_bytes(frame); },
          .refused = callbacks_.refused};
}

Result<int> CoordinatorClient::resume_store(const StoreForwarder::Carried& carried) {
  auto forwarder = StoreForwarder::resume(context_, carried, callbacks_of_store());
  if (!forwarder) return tl::unexpected<Error>(forwarder.error());
  forwarder_ = *std::move(forwarder);
  return forwarder_->port();
}

Result<int> CoordinatorClient::open_store() {
  auto forwarder = StoreForwarder::open(context_, callbacks_of_store());
  if (!forwarder) return tl::unexpected<Error>(forwarder.error());
  forwarder_ = *std::move(forwarder);
  return forwarder_->port();
}

void CoordinatorClient::close() {
  if (link_) link_->hang_up();
  introduction_.end();
  forwarder_.reset();
}

void CoordinatorClient::dial(const agent::Dial& action) {
  introduction_.end();
  if (!link_ || at_ != action.at) {
    const auto secure = security_.for_dialing();  // never fails here: it succeeded at the start
    // This code may run in a callback of the old link, so destroy that later.
    if (link_) asio::post(context_, [old = std::shared_ptr<LinkClient>(std::move(link_))] {});
    introduction_.use(secure.value_or(nullptr));
    link_ = make_link(action.at, secure.value_or(nullptr));
  }
  link_->dial(action.step);
}

void CoordinatorClient::hang_up(const agent::HangUp& action) {
  introduction_.end();
  if (action.breaks) {
    link_->break_off();
  } else {
    link_->hang_up();
  }
}

void CoordinatorClient::say(const link::Message& message) {
  const auto* const join = std::get_if<link::Join>(&message);
  if (forwarder_ && join != nullptr && join->after == RoundNumber{}) {
    forwarder_->streams().end_round();
  }
  link_->send(message);
}

void CoordinatorClient::ask_who_hosts(const agent::AskWhoHosts& action) {
  const auto secure = security_.for_dialing();  // never fails here: it succeeded at the start
  inquiry_.use(secure.value_or(nullptr));
  // No reply is the normal case. The agent asks again.
  inquiry_.begin(
      action.addresses, action.port, action.question, [] {},
      [this](const link::Hosts& hosts) { callbacks_.post(agent::Answered{hosts}); });
}

void CoordinatorClient::speak_for_workers() {
  is_new_ = false;
  if (forwarder_) forwarder_->streams().begin_link();
}

void CoordinatorClient::begin_round(RoundNumber round) {
  if (forwarder_) forwarder_->streams().begin_round(round);
}

}  // namespace cpprun::io
