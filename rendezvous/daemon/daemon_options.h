// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How cpprund was asked to run.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/bounds.h"
#include "proto/c10d/request.h"
#include "proto/clock.h"
#include "proto/etcd_bounds.h"
#include "proto/secure/secret.h"
#include "rendezvous/daemon/place.h"
#include "rendezvous/logging.h"
#include "rendezvous/status/door_places.h"
#include "rendezvous/status/status_access.h"

namespace cpprun {

struct DaemonOptions {
  std::string host{};                       // empty: every interface, IPv6 and IPv4
  std::uint16_t port = place_port_default;  // 0: any
  bool names_address = false;               // --host or --port was given
  bool is_quiet = false;                    // says nothing about closed clients
  LogLevel log_level = LogLevel::info;
  StatusAccess status_access = StatusAccess::user;  // who may look at the jobs by HTTP
  std::vector<DoorFolder> door_folders = {};        // of its socket for tools
  // Whose jobs it hosts: a folder with a file for each owner, or one file. Empty: anybody's.
  std::string secrets_folder = {};
  std::string secret_file = {};
  Secrets secrets_in_hand = {};      // or those of its one owner, which somebody has read
  std::string own_secret_file = {};  // the user's own, where no file was named; it may be absent
  bool looks_for_secret = true;      // --no-secret: it does not
  bool requires_secret = false;      // CPPRUN_REQUIRE_SECRET=1
  bool has_secrets() const {
    return !secrets_folder.empty() || !secret_file.empty() || !secrets_in_hand.empty();
  }
  std::string state_folder = {};  // where it keeps what it has to know of its jobs; empty: nowhere
  bool state_is_synced = false;   // and what is there outlives the machine's power
  // One of several, of which one leads: who that is says etcd, or whoever hands over.
  std::string etcd = {};  // its endpoints, as they were given; empty: there is none
  std::string etcd_user = {};
  std::string etcd_password_file = {};
  std::string etcd_authorities_file = {};
  std::string etcd_certificate_file = {};
  std::string etcd_key_file = {};
  Duration etcd_lease = bounds::contest_ttl;
  std::string cluster = "default";  // of them all
  std::string name = {};            // of this one; empty: as the machine is called
  std::string advertised = {};      // where others and agents meet it; empty: by that name
  std::string standby_of = {};      // where the one is met that it stands by for; empty: of nobody
  std::size_t standbys_max = bounds::members_max - 1;  // that have everything, where it leads
  bool leaves_nothing = false;  // in etcd, where it is the last of them and has no job
  bool follows() const { return !etcd.empty() || !standby_of.empty(); }
  bool has_sandbox = true;      // gives up what it does not need before it serves
  bool has_plain_store = true;  // for whoever comes, on the port where agents meet
  c10d::Dialect dialect = c10d::Dialect::undecided;  // taken for granted where it is given
  // What strangers can take at most.
  std::size_t jobs_max = bounds::jobs_max;
  std::size_t jobs_per_address_max = bounds::jobs_per_source_max;
  std::size_t links_per_address_max = bounds::links_per_source_max;
  Duration lease_max = bounds::daemon_lease_max;  // that a job may ask for
  // What clients of the stores may make the daemon hold; 0: a share of the machine's memory.
  std::uint64_t memory_bytes_max = 0;
  std::uint64_t address_bytes_max = 0;  // of it for one address; 0: half
  std::uint64_t address_keys_max = bounds::store_address_keys_max;
  std::uint64_t address_connections_max = bounds::store_address_connections_max;
};

}  // namespace cpprun
