// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's end of the streams that lead through its link: which worker's connection is to be
// read, written and closed, and when what they said leaves. It knows no socket and no loop; their
// owner is StoreForwarder, and in simulated worlds somebody else.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "rendezvous/store/store_streams.h"

namespace cpprun {

// A worker's connection, for its streams. It may leave while it is called.
class WorkerConnection {
 public:
  virtual ~WorkerConnection() = default;
  // There is room for what it says.
  virtual void read_on() = 0;
  // The store has said something to it.
  virtual void write_on() = 0;
  // The store says nothing more: what it has said is still written.
  virtual void end() = 0;
  // Its round is over: it is closed, and asks for nothing more here.
  virtual void drop() = 0;
};

class WorkerStreams {
 public:
  struct Callbacks {
    // The link is up and takes bytes.
    std::function<bool()> has_room;
    std::function<void(std::string_view frame)> send;
    // turn() is to be called, once, when everything that has come was looked at.
    std::function<void()> turn_soon;
  };
  explicit WorkerStreams(Callbacks callbacks, std::size_t window = bounds::store_stream_window)
      : callbacks_(std::move(callbacks)), window_(window) {}

  // --- workers ---
  // Why nobody is let in; empty: whoever may.
  std::string objection() const;
  StreamId open(std::shared_ptr<WorkerConnection> worker);
  std::size_t room(StreamId worker) const { return streams_->room(worker); }
  void say(StreamId worker, std::string_view bytes);
  std::string_view heard(StreamId worker) const { return streams_->heard(worker); }
  void take(StreamId worker, std::size_t count) { streams_->take(worker, count); }
  // It has taken bytes, or was read, outside of any call from here.
  void send_soon();
  // It is gone.
  void leave(StreamId worker);

  // --- the link ---
  // A round begins: every connection of the one before is dropped.
  void begin_round(RoundNumber round);
  // The agent comes back as a newcomer, who has none: a coordinator that begins anew may give its
  // first round the number of the one that is over here.
  void end_round();
  // The link is another one, on which the agent has its seat.
  void begin_link();
  // A frame of the coordinator's. A returned reason ends the link.
  std::string hear(std::string_view frame);
  // The link takes bytes again.
  void go_on() { send(); }
  void turn();
  void drop_all();

  // The invariant that is broken, if one is.
  std::optional<std::string> check() const;

 private:
  void look_at_changes();
  void send();

  Callbacks callbacks_;
  const std::size_t window_;
  std::optional<StoreStreams> streams_;  // of the round that runs
  std::unordered_map<StreamId, std::shared_ptr<WorkerConnection>> workers_;
  bool awaits_turn_ = false;
  StreamId spoke_last_{};       // of the workers
  bool several_speak_ = false;  // at the same time, as far as the last turn shows
};

}  // namespace cpprun
