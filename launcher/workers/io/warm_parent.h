// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Keeps this node's warm parent (../warm_parent.h), and forks workers from it. Whatever goes wrong
// with it, the worker is executed instead: nothing here fails a worker or delays it for long.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/workers/io/spawn.h"
#include "launcher/workers/warm_parent.h"
#include "proto/clock.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/logging.h"

namespace cpprun::io {

class WarmParent {
 public:
  struct Callbacks {
    std::function<void(int pid)> started;  // the parent, a child of ours that no sweep may kill
    std::function<void(const std::string& text, LogLevel level)> note;
  };
  // The result of one request. Neither: execute the worker.
  struct Forked {
    std::optional<Child> child = {};  // it runs its script once the callback has returned
    std::optional<SpawnError> error = {};
  };
  using Done = std::function<void(const Forked& forked)>;

  // `limits` must outlive this object.
  WarmParent(asio::io_context& context, const WorkerLimits& limits,
             std::vector<std::string> modules, Callbacks callbacks);
  // Kills the parent. Its owner reaps it.
  ~WarmParent();
  WarmParent(const WarmParent&) = delete;
  WarmParent& operator=(const WarmParent&) = delete;

  // Starts the parent if it is due.
  void begin_round(const std::vector<WorkerSpec>& specs);

  // Forks a worker with these streams, which must stay open until `done` is called: at once, or
  // from the event loop. The worker has not run anything of the user's by then.
  void fork(const WorkerSpec& spec, int out, int err, Done done);

  // That child of ours was reaped.
  void reaped(int pid);
  // 0: there is none.
  int pid() const { return pid_; }

 private:
  struct Request;

  void start();
  void start_or_wait();
  void hear();
  void heard(const std::string& message);
  void gone();
  void give_up(const std::string& why);
  void serve_waiting();
  bool ask(const std::shared_ptr<Request>& request, const WorkerSpec& spec, int out, int err);
  void hear(const std::shared_ptr<Request>& request);
  void heard(const std::shared_ptr<Request>& request, const std::string& message);
  void adopt(const std::shared_ptr<Request>& request);
  void finish(const std::shared_ptr<Request>& request, const Forked& forked);
  void refuse(const std::shared_ptr<Request>& request, const std::string& why);

  asio::io_context& context_;
  const WorkerLimits& limits_;
  std::vector<std::string> modules_;
  Callbacks callbacks_;
  WarmParentState state_;
  MachineTimer timer_;
  std::optional<WorkerSpec> spec_;  // of the parent
  Environment environment_;         // of the parent
  int pid_ = 0;
  TimePoint started_{};
  Duration imports_{};  // how long they took
  std::shared_ptr<asio::posix::stream_descriptor> control_;  // null: there is no parent
  std::vector<std::function<void()>> waiting_;               // for the first parent to be ready
  std::vector<std::shared_ptr<Request>> requests_;           // not finished yet
};

}  // namespace cpprun::io
