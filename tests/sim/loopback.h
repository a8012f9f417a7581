// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A connection of a worker to a port of its own machine: nothing is lost or reordered, and each
// side learns later what the other has done. Both directions have buffers, and the one to the
// worker may be full.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/timeline.h"

namespace cpprun::sim {

class Loopback : public std::enable_shared_from_this<Loopback> {
 public:
  // `server` is the process that has accepted it.
  Loopback(Timeline& time, Program& server, Random random, std::size_t room)
      : time_(time), server_(server), random_(random), room_(room) {}

  // --- the worker ---
  void say(std::string_view bytes);
  // Closes the worker's end, also when the worker is gone.
  void leave();
  std::function<void(std::string_view)> heard;
  std::function<void()> ended;

  // --- the server ---
  // Called from the server's event loop when there are bytes to read, or the end.
  std::function<void()> readable;
  // Called when there is room again after a partial write.
  std::function<void()> writable;
  std::string_view unread() const { return unread_; }
  void take(std::size_t count) { unread_.erase(0, count); }
  // The worker sends nothing more.
  bool has_left() const { return has_left_; }
  // Writes as much as fits.
  std::size_t write(std::string_view bytes);
  void close();
  // The server has not closed it.
  bool is_open() const { return is_open_; }
  // Nothing is in flight.
  bool is_still() const { return last_up_ < time_.now() && last_down_ < time_.now(); }

 private:
  void later(TimePoint& last, std::function<void()> what);
  void tell_server(const std::function<void()> Loopback::*what);

  Timeline& time_;
  Program& server_;
  Random random_;
  std::size_t room_;  // for bytes that the worker has not read
  std::string unread_;
  bool has_left_ = false;
  bool is_open_ = true;
  bool is_full_ = false;
  TimePoint last_up_{};  // when the last message to the server arrives
  TimePoint last_down_{};
};

}  // namespace cpprun::sim
