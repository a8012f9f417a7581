// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Asks what may never answer, files on a disk that hangs, from a thread of its own and for a
// bounded time. The thread shares nothing with the event loop but what one question hands over, and
// cpprun can leave while it still hangs.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "proto/clock.h"

namespace cpprun::io {

class Inquiry {
 public:
  Inquiry(asio::io_context& context, Duration patience);
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;
  // Nobody who was asked is waited for, and nothing is told any more.
  ~Inquiry();

  // `look` is called in the thread and may touch nothing of ours; `told` from the event loop, with
  // whether `look` came back in time. If it did not it may still be at work. What is asked while
  // others are being looked at is looked at after them, all in one go.
  void ask(std::function<void()> look, std::function<void(bool in_time)> told);

 private:
  struct Question {
    std::function<void()> look;
    std::function<void(bool)> told;
  };

  void begin();
  void listen();
  void tell(bool in_time);

  asio::posix::stream_descriptor news_;  // closes when the thread has come to its end
  asio::steady_timer timer_;
  Duration patience_;
  std::vector<Question> asked_;    // being looked at
  std::vector<Question> waiting_;  // for the next go
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun::io
