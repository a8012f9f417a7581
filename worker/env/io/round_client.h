// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A worker's side of the messages that keep it running over several rounds (cpprun
// --on-failure=reconfigure). docs/reconfigure.md has their table. run_restartable() uses it.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "proto/environment.h"
#include "proto/rank.h"

namespace cpprun {

class RoundClient {
 public:
  // This worker's place in a round: RANK, WORLD_SIZE and the other variables that differ.
  struct Place {
    std::uint32_t round = 0;
    Environment variables;
  };

  // Connects to the Unix socket of CPPRUN_ROUND_SOCKET. Throws std::runtime_error if it cannot.
  RoundClient(const std::string& path, LocalRank local_rank);
  ~RoundClient();
  RoundClient(const RoundClient&) = delete;
  RoundClient& operator=(const RoundClient&) = delete;

  // Tells cpprun that this worker has left its last round, and waits for its place in the next one.
  // From then on, connections belong to that round (RoundConnections). Throws std::runtime_error if
  // cpprun closes the connection or sends something else.
  Place await_place();

  // Waits until the current round is broken. False: it was not, for so long.
  bool await_broken(std::chrono::milliseconds wait);

 private:
  void send_waits();
  void listen();
  // Returns what is wrong with the message; empty: nothing.
  std::string hear(const std::string& message);
  void close_connections(std::unique_lock<std::mutex>& lock);

  const LocalRank local_rank_;
  int socket_ = -1;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::optional<Place> next_;
  std::string error_;         // why no further message will come
  std::uint32_t round_ = 0;   // of the last place that await_place() returned
  std::uint32_t broken_ = 0;  // the last round that broke
  bool is_inside_ = false;    // this worker takes part in round_
  std::thread listener_;
};

}  // namespace cpprun
