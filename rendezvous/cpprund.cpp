// SPDX-License-Identifier: BSD-3-Clause
// The entry point of cpprund, the daemon.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "proto/environment.h"
#include "proto/version.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/io/owner_access.h"
#include "rendezvous/daemon/io/store_daemon.h"
#include "rendezvous/daemon/service.h"
#include "rendezvous/io/program.h"

namespace {

int run(int argc, char** argv) {
  const auto environment = cpprun::environment_of(environ);
  auto parsed = cpprun::parse_daemon_options(argc, argv, cpprun::version_text(), environment);
  if (const auto* end = std::get_if<cpprun::CommandLineEnd>(&parsed)) {
    if (end->exit_code == 0) {
      (void)cpprun::print_or_exit("cpprund", end->text);
    } else {
      std::fputs(end->text.c_str(), stderr);
    }
    return end->exit_code;
  }
  cpprun::open_missing_stdout();
  // The leases of many jobs depend on timely replies.
  cpprun::lock_memory_and_priority();
  auto& options = std::get<cpprun::DaemonOptions>(parsed);
  options.door_directories = cpprun::own_door_directories(environment, ::geteuid());
  cpprun::resolve_secret_file(options);
  for (const char* name : cpprun::service_variables) ::unsetenv(name);
  return cpprun::run_store_daemon(options, environment);
}

}  // namespace

int main(int argc, char** argv) {
  // Ignore SIGHUP, which reloads the secrets, until its handler is installed. The first read of the
  // secrets comes before that.
  (void)std::signal(SIGHUP, SIG_IGN);
  return cpprun::run_program("cpprund", [&] { return run(argc, argv); });
}
