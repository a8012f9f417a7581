// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The Unix socket on which this node's workers receive their places in each round, without being
// started anew (../round_messages.h).

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/workers/supervisor.h"
#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun::io {

class RoundSocket {
 public:
  struct Callbacks {
    // The worker's process, or 0: a client is one of its processes or is rejected.
    std::function<int(LocalRank)> pid_of;
    std::function<void(supervisor::Rejoins)> rejoins;
    std::function<void(const std::string& reason)> rejected;
  };

  RoundSocket(asio::io_context& context, Callbacks callbacks);

  // Listens at that path. Its directory must be private.
  Result<void> open(const std::string& path);
  // Empty: it does not listen.
  const std::string& path() const { return path_; }

  // A round begins. The places of the last one are void.
  void begin_round() { places_.clear(); }
  // The worker's place: sent now if it is connected, or when it connects. False: not sent now.
  bool place(LocalRank local_rank, std::string message);
  // False: that worker is not connected, so it does not leave the round.
  bool send(LocalRank local_rank, const std::string& message);

 private:
  struct Client {
    explicit Client(asio::io_context& context) : socket(context) {}
    asio::posix::stream_descriptor socket;
    std::optional<LocalRank> local_rank = {};  // once it has sent its first message
  };
  using SharedClient = std::shared_ptr<Client>;

  void accept();
  void await(const SharedClient& client);
  // These three return whether the client stays.
  bool receive(const SharedClient& client);
  bool hear(const SharedClient& client, const std::string& message);
  static bool send_to(Client& client, const std::string& message);
  bool is_of_worker(Client& client, LocalRank local_rank) const;
  SharedClient client_of(LocalRank local_rank) const;
  void drop(const SharedClient& client);

  asio::io_context& context_;
  Callbacks callbacks_;
  std::string path_;
  asio::posix::stream_descriptor listener_;
  std::vector<SharedClient> clients_;
  std::map<LocalRank, std::string> places_;
};

}  // namespace cpprun::io
