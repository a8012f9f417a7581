#include "rendezvous/io/store_daemon.h"

#include <fmt/format.h>

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <cstdio>

#include "rendezvous/io/connection_driver.h"
#include "rendezvous/io/connection_set.h"
#include "rendezvous/io/daemon_log.h"
#include "rendezvous/io/listener.h"

namespace cpprun {
namespace {

class Daemon : public StoreHost {
 public:
  explicit Daemon(DaemonLog& log) : log_(log) {}

  Result<void> admit(const PeerAddress& /*peer*/) override { return {}; }
  Store& store() override { return store_; }
  void adopt_link(FileDescriptor /*socket*/, PeerAddress peer,
                  std::string /*first_bytes*/) override {
    note({.ordinary = false, .peer = peer, .text = "closed: agents are not served here"});
  }
  void note(Note note) override { log_.write(note); }

 private:
  DaemonLog& log_;
  Store store_;
};

}  // namespace

int run_store_daemon(const DaemonOptions& options) {
  raise_descriptor_limit();
  asio::io_context io(1);
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const asio::error_code&, int) { io.stop(); });
  DaemonLog log(io, options);
  Daemon daemon(log);
  ConnectionSet connections;
  const auto listening = connections.listen(
      daemon, {.host = options.host, .port = options.port, .dialect = options.dialect});
  if (!listening) {
    fmt::print(stderr, "cpprund: {}\n", listening.error().reason);
    return 1;
  }
  fmt::print("cpprund listening on {}\n", listening->address);
  std::fflush(stdout);  // who started us may be reading a pipe
  const ConnectionDriver driver(io, connections);
  io.run();
  return 0;
}

}  // namespace cpprun
