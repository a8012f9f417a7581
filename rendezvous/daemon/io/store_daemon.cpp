// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/store_daemon.h"

#include <fmt/format.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <chrono>
#include <string>

#include "proto/bounds.h"
#include "proto/text.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/io/daemon_log.h"
#include "rendezvous/daemon/io/owner_reload.h"
#include "rendezvous/io/patient_writer.h"
#include "rendezvous/io/scribe.h"
#include "rendezvous/io/side_processes.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/status/job_events_json.h"
#include "rendezvous/store/io/listener.h"
#include "rendezvous/store/io/machine_memory.h"

namespace cpprun {
namespace {

LedgerLimits memory_of(const DaemonOptions& options) {
  LedgerLimits limits = memory_of_this_machine();
  if (options.memory_bytes_max != 0) limits.bytes_max = options.memory_bytes_max;
  limits.address_bytes_max =
      options.address_bytes_max != 0 ? options.address_bytes_max : limits.bytes_max / 2;
  limits.address_keys_max = options.address_keys_max;
  limits.address_connections_max = options.address_connections_max;
  return limits;
}

std::string own_host() {
  char name[HOST_NAME_MAX + 1] = {};
  // A machine that is called nothing has events all the same.
  (void)::gethostname(name, HOST_NAME_MAX);
  return name;
}

WallTime wall_now() {
  return std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now());
}

}  // namespace

int run_store_daemon(const DaemonOptions& options) {
  raise_descriptor_limit();
  asio::io_context io(1);
  SideProcesses side;
  DaemonLog log(io, side, STDERR_FILENO, options);
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const asio::error_code&, int) { io.stop(); });
  OwnerReload owners(
      io, options,
      {.say = [&log](LogLevel level, const std::string& text) { log.say(level, text); },
       .take = nullptr});
  JobEvents events(own_host());
  // Nobody's agent lives here, and a daemon is never done.
  CoordinatorServer server(
      io,
      {.to_local_agent = [](const link::Message&) {},
       .note = [&log](const Note& note) { log.write(note); },
       .done = nullptr,
       .event_of = [&events](const std::string& job,
                             const auto& action) { return events.line(wall_now(), job, action); }},
      {.memory = memory_of(options)});
  if (const auto loaded = owners.load(); !loaded) {
    log.say(LogLevel::error, loaded.error().reason);
    log.flush();
    return 1;
  }
  const auto listening =
      server.open({.host = options.host, .port = options.port, .dialect = options.dialect},
                  {.only = {},
                   .options = {.lease = bounds::daemon_lease,
                               .status_interval = bounds::status_interval,
                               .last_call = bounds::daemon_last_call},
                   .limits = {.jobs = options.jobs_max,
                              .jobs_per_source = options.jobs_per_address_max,
                              .links_per_source = options.links_per_address_max,
                              .lease = options.lease_max}},
                  options.has_plain_store ? PlainStore::served : PlainStore::refused,
                  {.access = options.status_access, .names = {options.host}});
  if (!listening) {
    log.say(LogLevel::error, listening.error().reason);
    log.flush();
    return 1;
  }
  server.open_door(side, {.folders = options.door_folders, .patience = bounds::log_farewell});
  // Whoever started us may be reading a pipe, or may have closed it.
  const auto lost = [&log](int error_number) {
    log.say(LogLevel::warning, fmt::format("cannot write to stdout: {}", errno_text(error_number)));
  };
  const auto scribe = Scribe::begin_for_file(io, side, STDOUT_FILENO, {.trouble = lost});
  PatientWriter out(io, scribe ? scribe->pipe() : STDOUT_FILENO, {.lost = lost});
  out.write(fmt::format("cpprund listening on {}\n", listening->address));
  io.run();
  // A second signal on the way out must not turn a clean end into a killed one.
  sigset_t late;
  ::sigemptyset(&late);
  ::sigaddset(&late, SIGTERM);
  ::sigaddset(&late, SIGINT);
  ::sigaddset(&late, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &late, nullptr);
  log.flush();
  return 0;
}

}  // namespace cpprun
