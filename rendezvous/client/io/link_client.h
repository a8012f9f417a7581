// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's connection to the coordinator. It resolves the address, connects and exchanges
// preambles. If that fails, it gives a reason that a user can act on. It makes one attempt per
// call; the agent decides when to retry.

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/client/bounds.h"
#include "rendezvous/io/link_channel.h"

namespace cpprun {

class LinkClient : public DialledLink {
 public:
  using Callbacks = DialCallbacks;

  // Details of the last failed attempt, for diagnostics.
  struct Failed {
    std::vector<std::string> addresses;  // numeric, in the order of the attempts
    bool refused = false;                // the last address refused: nothing listens there
  };

  // With `secure`, both sides first prove that they hold the same secret.
  LinkClient(asio::io_context& context, std::string host, int port, Callbacks callbacks,
             std::shared_ptr<SecureContext> secure = nullptr);
  ~LinkClient() override;
  LinkClient(const LinkClient&) = delete;
  LinkClient& operator=(const LinkClient&) = delete;

  // Makes one attempt and reports `up` or `down`. Ends any existing link or attempt without a
  // callback. Each step (resolving the name, each address, the preamble) may take `step_max`.
  void dial(std::chrono::nanoseconds step_max = bounds::dial_attempt_max);
  void dial_once() override { dial(); }
  void send(const link::Message& message) override;
  void send_bytes(std::string_view bytes) override;
  bool has_room() const { return channel_ != nullptr && channel_->has_room(); }
  void hang_up() override;
  // Closes the link at once. The peer sees a broken link and not a regular close.
  void break_off();
  // While the link is up: the host's addresses other than the one in use.
  const std::vector<std::string>& other_addresses() const { return other_addresses_; }
  // The attempt that `down` reported. Empty if an established link ended.
  const Failed& failed() const { return failed_; }

 private:
  class Attempt;
  asio::io_context& context_;
  std::string host_;
  int port_;
  Callbacks callbacks_;
  std::shared_ptr<SecureContext> secure_;  // null: no secret
  std::shared_ptr<Attempt> attempt_;
  Failed failed_;
  std::vector<std::string> other_addresses_;
  std::shared_ptr<LinkChannel> channel_;
};

}  // namespace cpprun
