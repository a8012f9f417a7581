// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the workers of a node have started, while they are being ended: looks at it when asked, when
// one of these processes has exited, and twice a second. A pidfd tells of an exit anywhere in the
// tree; without pidfds SIGCHLD tells of those that came to us, and so of the last one. Idle
// otherwise.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "launcher/workers/supervisor.h"

namespace cpprun::io {

class EndingTree {
 public:
  // `below` lists the pids of all that workers have started. `seen` is called from the event loop.
  EndingTree(asio::io_context& context, std::function<std::vector<int>()> below,
             std::function<void(std::vector<TreeProcess>)> seen);

  // Looks now and reports, and reports again after each change.
  void watch();
  // One of them may have exited.
  void look_soon();
  void forget();

 private:
  using Identity = std::pair<int, std::uint64_t>;  // pid and start

  void look(bool is_asked);
  void beat();
  std::vector<TreeProcess> list() const;
  void await_exits();

  asio::io_context& context_;
  std::function<std::vector<int>()> below_;
  std::function<void(std::vector<TreeProcess>)> seen_;
  bool watches_ = false;
  bool look_is_due_ = false;
  std::vector<TreeProcess> last_;
  std::map<Identity, std::unique_ptr<asio::posix::stream_descriptor>> awaited_;
  asio::steady_timer timer_;
  asio::steady_timer beat_;
};

}  // namespace cpprun::io
