#pragma once
// The Keeper with a port: accepts agents' links and the workers' store connections on it, tells the
// machine what happened and performs what it answers. Also the seat of the agent that lives in the
// same process: its link is a call, not a socket.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "rendezvous/io/connection_driver.h"
#include "rendezvous/io/connection_set.h"
#include "rendezvous/io/link_channel.h"
#include "rendezvous/keeper.h"

namespace cpprun {

class KeeperServer : private StoreHost {
 public:
  struct Callbacks {
    // For the agent in this process.
    std::function<void(link::Message)> to_local_agent;
    // A line for the log.
    std::function<void(std::string)> note;
    // The job is over and nobody is left to be told.
    std::function<void()> done;
  };

  KeeperServer(asio::io_context& context, Callbacks callbacks);
  ~KeeperServer() override;

  // Opens the port (0: the kernel picks) on `host` (empty: every interface) and gives its number.
  // The job begins to exist here; `options.store_port` is filled in.
  Result<int> open(const std::string& host, int port, KeeperOptions options);

  // The agent in this process takes its seat and speaks.
  void hear_local_agent(const link::Message& message);
  // The agent in this process has hung up.
  void local_agent_left();

 private:
  Result<void> admit(const PeerAddress& peer) override;
  Store& store() override { return keeper_->store(); }
  void adopt_link(FileDescriptor socket, PeerAddress peer, std::string first_bytes) override;
  void note(Note note) override;

  void tell(Keeper::Event event);
  void perform(const Keeper::Action& action);
  void arm();

  asio::io_context& context_;
  Callbacks callbacks_;
  asio::steady_timer timer_;
  std::optional<Keeper> keeper_;
  ConnectionSet connections_;
  std::optional<ConnectionDriver> driver_;
  std::optional<Listening> listening_;
  std::unordered_map<LinkId, std::shared_ptr<LinkChannel>> channels_;
  LinkId last_link_{};
  std::optional<LinkId> local_link_;
  bool told_done_ = false;
};

}  // namespace cpprun
