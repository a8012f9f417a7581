// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's connection to the coordinator: resolves the address, connects, greets, and explains
// in terms a person can act on why it could not. One attempt per call; the agent decides when to
// try again.

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/bounds.h"
#include "rendezvous/io/link_channel.h"

namespace cpprun {

class LinkClient : public DialledLink {
 public:
  using Callbacks = DialCallbacks;

  // The attempt that failed last, for whoever can say more about it.
  struct Failed {
    std::vector<std::string> addresses;  // numeric, in the order in which they were tried
    bool refused = false;                // by the last of them: nothing listens there
  };

  // With `secure`, both sides prove that they hold the same secret before anything is said.
  LinkClient(asio::io_context& context, std::string host, int port, Callbacks callbacks,
             std::shared_ptr<SecureContext> secure = nullptr);
  ~LinkClient() override;
  LinkClient(const LinkClient&) = delete;
  LinkClient& operator=(const LinkClient&) = delete;

  // One attempt; ends whatever link or attempt there was, silently. Answers with `up` or `down`.
  // Each of its steps (the name, each address, the greeting) may take `step_max`.
  void dial(std::chrono::nanoseconds step_max = bounds::dial_attempt_max);
  void dial_once() override { dial(); }
  void send(const link::Message& message) override;
  void send_bytes(std::string_view bytes) override;
  bool has_room() const { return channel_ != nullptr && channel_->has_room(); }
  void hang_up() override;
  // The same at once: whoever is there hears that the link broke, and not that it was closed.
  void break_off();
  // Of a link that is up: the host's other addresses, besides the one in use.
  const std::vector<std::string>& other_addresses() const { return other_addresses_; }
  // Of the attempt that `down` reported; empty if a link ended that was up.
  const Failed& failed() const { return failed_; }

 private:
  class Attempt;
  asio::io_context& context_;
  std::string host_;
  int port_;
  Callbacks callbacks_;
  std::shared_ptr<SecureContext> secure_;  // null: there is no secret
  std::shared_ptr<Attempt> attempt_;
  Failed failed_;
  std::vector<std::string> other_addresses_;
  std::shared_ptr<LinkChannel> channel_;
};

}  // namespace cpprun
