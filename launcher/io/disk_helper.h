// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::io {

// Runs a request that may block forever, such as one about files on a hung disk, in a helper
// process with a time limit. Neither the event loop nor cpprun's exit waits for it.
class AsyncTask {
 public:
  using Look = std::function<std::string()>;
  using Told = std::function<void(const std::optional<std::string>& answer)>;

  // `only_in_helper`: if no process can be started, there is no answer, and a process that still
  // runs ends with this object and with cpprun. Otherwise the request then runs here, and a process
  // is left to finish.
  AsyncTask(asio::io_context& context, HelperProcesses& side, Duration timeout,
            bool only_in_helper = false);
  AsyncTask(const AsyncTask&) = delete;
  AsyncTask& operator=(const AsyncTask&) = delete;
  // Does not wait for running requests, and makes no further callbacks.
  ~AsyncTask();

  // `look` runs in the helper process; its changes to memory stay there. `told` is called from the
  // event loop with its result, or with nothing after a timeout. Requests made meanwhile run
  // afterwards, all in one batch.
  void ask(Look look, Told told);
  // No request is running or waiting.
  bool is_idle() const { return asked_.empty() && waiting_.empty(); }

 private:
  struct Question {
    Look look;
    Told told;
  };

  void begin();
  void listen();
  void tell();

  asio::posix::stream_descriptor news_;  // closes when the process exits
  asio::steady_timer timer_;
  HelperProcesses& side_;
  Duration timeout_;
  bool only_in_helper_;
  std::optional<int> pid_;         // of the helper process
  std::vector<Question> asked_;    // running
  std::vector<Question> waiting_;  // for the next batch
  std::string answers_;            // received so far
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun::io
