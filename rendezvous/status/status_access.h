// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who may read the status, which connection is closed when all slots are taken, and under which
// host names this machine may be addressed.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun {

// Read access to the status (--status-access). The default is the user that runs the program, and
// root, on this machine: host names and failure messages are not for every account there.
enum class StatusAccess {
  none,     // no HTTP at all
  user,     // over loopback: the user that runs the program, and root
  host,     // over loopback: any user
  network,  // any client that reaches the port
};

// "none", "user", "host", "network".
std::optional<StatusAccess> status_access(std::string_view name);
inline constexpr std::string_view status_access_names = "none, user, host or network";

// What a client has proven by a secret or a token, over any connection.
struct Credential {
  std::string holder;        // for events and logs, such as: a token of the secret "blue"
  bool may_control = false;  // control access; else read access only
  // The owner whose jobs it covers; empty: all jobs.
  std::optional<std::string> owner = {};
  // Validity from when it was shown; empty: until the secret is removed.
  std::optional<Duration> lasts = {};
  friend bool operator==(const Credential&, const Credential&) = default;
};

// The client of a request.
struct StatusClient {
  bool by_loopback = false;
  Result<std::uint32_t> user;  // the owner of the connection, or why it is unknown
  std::optional<Credential> credential = {};
};

// Fails with the reason, as a sentence for the client. `own_user` runs this program. The owner of
// the connection has to be known only if asks_whose() returns true.
Result<void> may_look(StatusAccess access, const StatusClient& client, std::uint32_t own_user);
bool asks_whose(StatusAccess access, bool by_loopback);

// Control access; fails with the reason. Granted to the user that runs this program and to root on
// this machine, whatever --status-access says, and to clients with a credential that allows it.
Result<void> may_control(const StatusClient& client, std::uint32_t own_user);

// Which connection is closed when all slots are taken. Clients without read access only get a
// refusal, so a client with access replaces one of them at any time. Clients without access replace
// each other: the oldest connection of the address that has the most, so that a flood displaces
// itself. Between clients of the same standing, only connections that wait for their next request
// are closed.

// Priority of a client, lowest first.
enum class AccessLevel {
  none,      // no read access so far
  admitted,  // has the access that all clients have on this path
  proven,    // has access by its user or by a secret
};

struct ConnectionSlot {
  AccessLevel access = AccessLevel::none;
  bool is_idle = false;  // no request is being answered
  std::string source;    // the address that it is counted for
  std::chrono::steady_clock::time_point since{};
};

// The index of the connection to close; empty: none may be closed for a client of that standing.
std::optional<std::size_t> who_gives_way(const std::vector<ConnectionSlot>& taken,
                                         AccessLevel newcomer);

// The names of this machine, from its local configuration only. No name server is queried.

// Names under which this machine may be addressed, besides its addresses and localhost.
using HostNames = std::vector<std::string>;

// What this machine knows of its names: gethostname(2), and the text of /etc/hosts and
// /etc/resolv.conf. A missing file is an empty text.
struct HostFiles {
  std::string host;
  std::string hosts = {};
  std::string resolv = {};
};

// `given` (--host, --advertise), the host's name with and without its domain, that name in each
// search domain of resolv.conf, and its aliases in /etc/hosts. No duplicates, no empty names.
HostNames host_names(HostNames given, const HostFiles& files);

}  // namespace cpprun
