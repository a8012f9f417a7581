// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Shows the coordinator every address from which this node reaches it. The master's name may stand
// for several addresses, and a worker may pick another one than our link did and so arrive from
// another address of ours. The coordinator admits an address only after being spoken to from it.
//
// This happens before the node asks for a seat, since a worker may connect to the store a
// millisecond after the round is sealed.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/link/message.h"
#include "rendezvous/client/io/link_client.h"

namespace cpprun::io {

class Introduction {
 public:
  explicit Introduction(asio::io_context& context) : context_(context), patience_(context) {}

  // From here on both sides of every link prove that they hold the same secret; null: neither does.
  void use(std::shared_ptr<SecureContext> secure) { secure_ = std::move(secure); }
  // Says `who` at each of these addresses, a few at most. `done` is called once: when the last has
  // answered or cannot be reached, or bounds::introduction_patience is over.
  void begin(std::vector<std::string> addresses, int port, const link::WhoHosts& who,
             std::function<void()> done);
  // Calls nobody any more. The links stay until the coordinator, which counts them, needs them no
  // longer.
  void end();

 private:
  void one_is_done();

  asio::io_context& context_;
  std::shared_ptr<SecureContext> secure_;
  asio::steady_timer patience_;
  std::vector<std::unique_ptr<LinkClient>> links_;
  std::vector<char> answered_;  // by link
  std::size_t left_ = 0;
  std::function<void()> done_;
};

}  // namespace cpprun::io
