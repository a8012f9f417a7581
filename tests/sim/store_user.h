// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A worker's requests to its job's store, as PyTorch's client sends them: some requests at once,
// their replies in order, a wait that is given up in the end, a new connection now and then. The
// replies have no effect on the worker: its lifetime does not depend on its store.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/c10d/codec.h"
#include "tests/sim/loopback.h"
#include "tests/sim/random.h"
#include "tests/sim/store_judge.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class StoreUser : public std::enable_shared_from_this<StoreUser> {
 public:
  struct Self {
    int node = 0;
    int job = 0;
    Rank rank;
    RoundId round;
  };
  struct Hooks {
    // To the port that its cpprun has named; null: nothing listens there.
    std::function<std::shared_ptr<Loopback>()> connect;
    // Nothing is in flight between this machine's workers of that round and their store, and
    // nothing blocks them.
    std::function<bool(RoundId)> is_calm;
  };
  StoreUser(Universe& universe, Self self, Random random, Hooks hooks);

  void begin();
  // The worker's process has ended.
  void end();

 private:
  // A request on this connection that is not known to be executed.
  struct Pending {
    std::optional<StoreJudge::Asked> asked;  // none: the end of a wait
    std::string key = {};
    c10d::Expected expected = {};
  };

  void later(Duration delay, void (StoreUser::*what)());
  void connect();
  void lost();
  void act();
  void ask_some();
  void ask_of(const std::string& key);
  void ask(const std::string& key, StoreOperation operation);
  void give_up_waiting();
  void hear(std::string_view bytes);
  bool hear_one();
  void take(const c10d::Reply& reply);
  void look_for_silence();
  std::string value();

  Universe& universe_;
  const Self self_;
  Random random_;
  Hooks hooks_;
  bool is_alive_ = true;
  int left_to_do_ = 0;  // number of requests left
  int connections_left_ = 2;
  std::shared_ptr<Loopback> connection_;
  int number_ = 0;  // of the connection
  std::deque<Pending> pending_;
  int answers_due_ = 0;  // of pending_
  std::uint64_t asked_ = 0;
  std::uint64_t waits_ = 0;  // the wait that is to be given up
  std::string to_say_;
  std::string heard_;
  std::string last_seen_;
  c10d::ReplyDecoder decoder_;
};

}  // namespace cpprun::sim
