#pragma once
// The signals the user asked cpprun to handle, as calls from the event loop.

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <functional>
#include <string>
#include <vector>

namespace cpprun::io {

class Signals {
 public:
  // `on_signal` is called for each arrival, from the event loop. A SIGHUP that cpprun was started
  // to ignore (nohup) stays ignored; signals that cannot be handled are listed in `not_handled`.
  Signals(asio::io_context& context, const std::vector<int>& signals,
          std::function<void(int signal)> on_signal);

  const std::vector<std::string>& not_handled() const { return not_handled_; }
  // No more calls; the io_context has nothing left to wait for here.
  void cancel();

 private:
  void wait();

  asio::signal_set set_;
  std::function<void(int)> on_signal_;
  std::vector<std::string> not_handled_;
};

}  // namespace cpprun::io
