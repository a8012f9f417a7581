// The daemon: one port that serves a store until SIGTERM or SIGINT. Constructs, connects, runs.

#include <fmt/format.h>

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <csignal>
#include <cstdio>

#include "rendezvous/cpprund_cli.h"
#include "rendezvous/io/connection_driver.h"
#include "rendezvous/io/connection_set.h"
#include "rendezvous/io/listener.h"
#include "rendezvous/log_limiter.h"

namespace {

using cpprun::Note;

// stderr, with alike lines counted instead of written.
class Log {
 public:
  Log(asio::io_context& io, const cpprun::DaemonOptions& options) : options_(options), timer_(io) {}

  void write(const Note& note) {
    if (options_.is_quiet || (note.ordinary && !options_.is_verbose)) return;
    const cpprun::TimePoint now = std::chrono::steady_clock::now();
    tell_held_back(now);
    if (limiter_.pass(now, note.text)) {
      print(note.peer ? fmt::format("{} {}", note.peer->text(), note.text) : note.text);
    }
    arm();
  }

 private:
  static void print(const std::string& line) { fmt::print(stderr, "cpprund: {}\n", line); }

  void tell_held_back(cpprun::TimePoint now) {
    for (const std::string& line : limiter_.advance(now)) print(line);
  }

  void arm() {
    const auto deadline = limiter_.next_deadline();
    if (!deadline || deadline == armed_) return;
    armed_ = deadline;
    timer_.expires_at(*deadline);
    timer_.async_wait([this](const asio::error_code& error) {
      if (error) return;
      armed_.reset();
      tell_held_back(std::chrono::steady_clock::now());
      arm();
    });
  }

  const cpprun::DaemonOptions& options_;
  cpprun::LogLimiter limiter_;
  asio::steady_timer timer_;
  std::optional<cpprun::TimePoint> armed_;
};

class Daemon : public cpprun::StoreHost {
 public:
  explicit Daemon(Log& log) : log_(log) {}

  cpprun::Result<void> admit(const cpprun::PeerAddress& /*peer*/) override { return {}; }
  cpprun::Store& store() override { return store_; }
  void adopt_link(cpprun::FileDescriptor /*socket*/, cpprun::PeerAddress peer,
                  std::string /*first_bytes*/) override {
    note({.ordinary = false, .peer = peer, .text = "closed: agents are not served here"});
  }
  void note(Note note) override { log_.write(note); }

 private:
  Log& log_;
  cpprun::Store store_;
};

int run(const cpprun::DaemonOptions& options) {
  cpprun::raise_descriptor_limit();
  asio::io_context io(1);
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const asio::error_code&, int) { io.stop(); });
  Log log(io, options);
  Daemon daemon(log);
  cpprun::ConnectionSet connections;
  const auto listening = connections.listen(
      daemon, {.host = options.host, .port = options.port, .dialect = options.dialect});
  if (!listening) {
    fmt::print(stderr, "cpprund: {}\n", listening.error().reason);
    return 1;
  }
  fmt::print("cpprund listening on {}\n", listening->address);
  std::fflush(stdout);  // who started us may be reading a pipe
  const cpprun::ConnectionDriver driver(io, connections);
  io.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = cpprun::parse_daemon_options(argc, argv);
  if (const auto* end = std::get_if<cpprun::CommandLineEnd>(&parsed)) {
    std::fputs(end->text.c_str(), end->exit_code == 0 ? stdout : stderr);
    return end->exit_code;
  }
  return run(std::get<cpprun::DaemonOptions>(parsed));
}
