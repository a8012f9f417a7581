// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/introduction.h"

#include <utility>

#include "proto/bounds.h"

namespace cpprun::io {

void Introduction::begin(std::vector<std::string> addresses, int port, const link::WhoHosts& who,
                         std::function<void()> done) {
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
                              .message = [ended](const link::Message&) { ended(); },
                              .down = [ended](const std::string&) { ended(); }},
        secure_));
  }
  patience_.expires_after(bounds::introduction_patience);
  patience_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled || left_ == 0) return;
    left_ = 1;
    one_is_done();
  });
  for (const auto& link : links_) link->dial();
}

void Introduction::end() {
  done_ = nullptr;
  left_ = 0;
  patience_.cancel();
}

void Introduction::one_is_done() {
  if (left_ == 0 || --left_ > 0) return;
  patience_.cancel();
  if (auto done = std::exchange(done_, nullptr)) done();
}

}  // namespace cpprun::io
