// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Asks a question that may never be answered, about files on a hung disk, in a side process and for
// a limited time. Nothing waits for it, neither the event loop nor cpprun's end.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

class Inquiry {
 public:
  using Look = std::function<std::string()>;
  using Told = std::function<void(const std::optional<std::string>& answer)>;

  Inquiry(asio::io_context& context, SideProcesses& side, Duration patience);
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;
  // Nobody who was asked is waited for, and nothing is told any more.
  ~Inquiry();

  // `look` runs in the side process, and what it changes stays there; `told` is called from the
  // event loop with its result, or with nothing if that did not come in time. Questions asked
  // meanwhile are answered afterwards, all in one go.
  void ask(Look look, Told told);

 private:
  struct Question {
    Look look;
    Told told;
  };

  void begin();
  void listen();
  void tell();

  asio::posix::stream_descriptor news_;  // closes when the process has come to its end
  asio::steady_timer timer_;
  SideProcesses& side_;
  Duration patience_;
  std::vector<Question> asked_;    // being looked at
  std::vector<Question> waiting_;  // for the next go
  std::string answers_;            // of those asked, as far as they have come
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun::io
