// The daemon. Constructs, connects, runs, returns.

#include <cstdio>

#include "rendezvous/cpprund_cli.h"
#include "rendezvous/io/steadiness.h"
#include "rendezvous/io/store_daemon.h"

int main(int argc, char** argv) {
  const auto parsed = cpprun::parse_daemon_options(argc, argv);
  if (const auto* end = std::get_if<cpprun::CommandLineEnd>(&parsed)) {
    std::fputs(end->text.c_str(), end->exit_code == 0 ? stdout : stderr);
    return end->exit_code;
  }
  // The leases of many jobs hang on its answers.
  cpprun::hold_steady();
  return cpprun::run_store_daemon(std::get<cpprun::DaemonOptions>(parsed));
}
