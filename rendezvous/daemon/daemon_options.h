// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund's configuration, and the command line from which it is parsed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/c10d/request.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/link/bounds.h"
#include "proto/secure/secret.h"
#include "rendezvous/command_line.h"
#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/job/leases.h"
#include "rendezvous/logging.h"
#include "rendezvous/status/door_places.h"
#include "rendezvous/status/status_access.h"

namespace cpprun {

struct DaemonOptions {
  std::string host{};                            // empty: all interfaces, IPv6 and IPv4
  std::uint16_t port = rendezvous_port_default;  // 0: any free port
  bool names_address = false;                    // --host or --port was given
  bool is_quiet = false;                         // do not log closed clients
  LogLevel log_level = LogLevel::info;
  StatusAccess status_access = StatusAccess::user;  // who has read access to jobs by HTTP
  std::vector<DoorDirectory> door_directories =
      {};  // candidates for the control socket's directory
  // The owners whose jobs this cpprund hosts: a directory with one file per owner, or one file. If
  // neither is set, it hosts jobs of any client.
  std::string secrets_directory = {};
  std::string secret_file = {};
  Secrets secrets_in_hand = {};      // secrets of its single owner, already read by the caller
  std::string own_secret_file = {};  // the user's own file if no other was named; it may not exist
  bool looks_for_secret = true;      // false with --no-secret
  bool requires_secret = false;      // CPPRUN_REQUIRE_SECRET=1
  bool has_secrets() const {
    return !secrets_directory.empty() || !secret_file.empty() || !secrets_in_hand.empty();
  }
  std::string state_directory = {};  // where job state is kept; empty: nowhere
  bool state_is_synced = false;      // state is flushed to disk and survives a power failure
  // Options for a cluster of cpprunds with one leader, which etcd elects.
  std::string etcd = {};  // endpoints as given; empty: no etcd
  std::string etcd_user = {};
  std::string etcd_password_file = {};
  std::string etcd_authorities_file = {};
  std::string etcd_certificate_file = {};
  std::string etcd_key_file = {};
  Duration etcd_lease = bounds::election_ttl;
  std::string cluster = "default";  // name of the cluster
  std::string name = {};            // of this member; empty: the machine's host name
  std::string advertised = {};      // address for members and agents; empty: the host name
  std::size_t standbys_max = bounds::members_max - 1;  // limit for standbys if it is the leader
  bool leaves_nothing = false;  // delete its keys from etcd if it is the last member and has no job
  bool is_member() const { return !etcd.empty(); }
  std::optional<RoundVotes::Agent> own_agent = {};  // that started this cpprund for its own job
  bool has_sandbox = true;                          // drop unneeded privileges before serving
  bool has_plain_store = true;  // serve a store to all clients on the rendezvous port
  c10d::Dialect dialect = c10d::Dialect::undecided;  // assumed for all clients if set
  // Limits for clients.
  std::size_t jobs_max = bounds::jobs_max;
  std::size_t jobs_per_address_max = bounds::jobs_per_source_max;
  std::size_t links_per_address_max = bounds::links_per_source_max;
  Duration lease_max = bounds::daemon_lease_max;  // longest that a job may request
  // Memory that clients of the stores may make the daemon hold; 0: a share of the machine's memory.
  std::uint64_t memory_bytes_max = 0;
  std::uint64_t address_bytes_max = 0;  // for a single address; 0: half of the total
  std::uint64_t address_keys_max = bounds::store_address_keys_max;
  std::uint64_t address_connections_max = bounds::store_address_connections_max;
};

// `version` is the text that --version prints. CPPRUN_LOG_LEVEL in `environment` sets the log level
// if no flag does.
std::variant<DaemonOptions, CommandLineEnd> parse_daemon_options(
    int argc, const char* const* argv, std::string_view version,
    const Environment& environment = {});

}  // namespace cpprun
