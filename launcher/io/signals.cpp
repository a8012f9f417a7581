#include "launcher/io/signals.h"

#include <csignal>
#include <utility>

#include "launcher/signal_names.h"

namespace cpprun::io {

namespace {

bool ignored_since_before(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals(asio::io_context& context, const std::vector<int>& signals,
                 std::function<void(int signal)> on_signal)
    : set_(context), on_signal_(std::move(on_signal)) {
  for (const int signal : signals) {
    // Who said nohup meant it; torchrun would end the job with the terminal all the same.
    if (signal == SIGHUP && ignored_since_before(signal)) continue;
    asio::error_code refused;
    set_.add(signal, refused);
    if (refused) not_handled_.push_back(signal_name(signal));
  }
  wait();
}

void Signals::wait() {
  set_.async_wait([this](const asio::error_code& error, int signal) {
    if (error) return;
    wait();
    on_signal_(signal);
  });
}

void Signals::cancel() {
  asio::error_code ignored;  // nothing to cancel is fine
  set_.cancel(ignored);
}

}  // namespace cpprun::io
