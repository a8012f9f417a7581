// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's link to a coordinator in another process (CoordinatorClient), and how the node
// announces its addresses there (Introduction).

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "proto/secure/io/openssl_library.h"
#include "rendezvous/client/io/link_client.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/io/store_forwarder.h"

namespace cpprun::io {

// Announces to the coordinator every address from which this node reaches it. The master's name may
// resolve to several addresses. A worker may pick another one than our link did, and then connects
// from another address of ours. The coordinator admits an address only after a message from it.
//
// This happens before the node joins, since a worker may connect to the store a millisecond after
// the round is sealed.
class Introduction {
 public:
  explicit Introduction(asio::io_context& context) : context_(context), timeout_(context) {}

  // From now on both sides of every link prove that they hold the same secret. Null: neither does.
  void use(std::shared_ptr<SecureContext> secure) { secure_ = std::move(secure); }
  // Sends `who` to each of these addresses, at most a few. Calls `done` once: when the last one has
  // replied or cannot be reached, or after bounds::introduction_timeout. Each reply goes to
  // `hosts`.
  void begin(std::vector<std::string> addresses, int port, const link::WhoHosts& who,
             std::function<void()> done, std::function<void(const link::Hosts&)> hosts = {});
  // Cancels `done`. The links stay open, because the coordinator counts them, until it no longer
  // needs them.
  void end();

 private:
  void one_is_done();

  asio::io_context& context_;
  std::shared_ptr<SecureContext> secure_;
  asio::steady_timer timeout_;
  std::vector<std::unique_ptr<LinkClient>> links_;
  std::vector<char> answered_;  // by index of the link
  std::size_t left_ = 0;
  std::function<void()> done_;
};

// The agent's link to a coordinator in another process. The requests of this node's workers travel
// over it, if stores are local.
class CoordinatorClient {
 public:
  struct Callbacks {
    std::function<void(Agent::Event)> post;
    // A connection to the workers' store was rejected: its address, and the reason as a clause.
    std::function<void(const PeerAddress& peer, const std::string& why)> refused;
  };

  // `self` identifies this node to the coordinator. `security` must outlive this object.
  CoordinatorClient(asio::io_context& context, LinkSecurity& security, link::WhoHosts self,
                    Callbacks callbacks);

  // Prepares links to `at`. Called before the others, unless this node hosts the job.
  Result<void> open(const Endpoint& at);
  // Opens the workers' local store, and returns its port.
  Result<int> open_store();
  // For another program in this process: what it needs to continue with that store; and how it does
  // so. Returns its port.
  std::optional<StoreForwarder::Carried> carried_store() const {
    return forwarder_ ? std::optional(forwarder_->carried()) : std::nullopt;
  }
  Result<int> resume_store(const StoreForwarder::Carried& carried);
  // The coordinator is in this process from now on, and so is the store.
  void close();

  // What the agent's actions request.
  void dial(const agent::Dial& action);
  void hang_up(const agent::HangUp& action);
  void say(const link::Message& message);
  void ask_who_hosts(const agent::AskWhoHosts& action);
  // The peer is the leader: requests of the workers go to it. Without a new link, they have to
  // wait.
  void speak_for_workers();
  void begin_round(RoundNumber round);

 private:
  StoreForwarder::Callbacks callbacks_of_store();
  std::unique_ptr<LinkClient> make_link(const Endpoint& at, std::shared_ptr<SecureContext> secure);

  asio::io_context& context_;
  LinkSecurity& security_;
  link::WhoHosts self_;
  Callbacks callbacks_;
  std::unique_ptr<LinkClient> link_;           // null if this node has always hosted the job
  Endpoint at_;                                // target of link_
  bool is_new_ = true;                         // no message from a leader yet
  std::unique_ptr<StoreForwarder> forwarder_;  // if stores are local
  Introduction introduction_;
  Introduction inquiry_;  // of ask_who_hosts()
};

}  // namespace cpprun::io
