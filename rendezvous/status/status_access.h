// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who may see the status, who gives way where all places are taken, and by which names a machine
// may be asked for.

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

// Who may look at what goes on here (--status-access). By default nobody but the user that runs it
// and root, on the machine itself: names of hosts and words of failures are not for everybody who
// has an account there.
enum class StatusAccess {
  none,     // nobody: HTTP is not spoken
  user,     // over loopback, the user that runs it, and root
  host,     // whoever comes over loopback
  network,  // whoever reaches the port
};

// "none", "user", "host", "network".
std::optional<StatusAccess> status_access(std::string_view name);
inline constexpr std::string_view status_access_names = "none, user, host or network";

// What it has shown of a secret, wherever it comes from.
struct Credential {
  std::string holder;      // for events and logs: a token of the secret "blue"
  bool may_order = false;  // or look alone
  // Whose jobs it is good for; nothing: everybody's.
  std::optional<std::string> owner = {};
  std::optional<Duration> lasts = {};  // from when it was shown; nothing: as long as it is there
  friend bool operator==(const Credential&, const Credential&) = default;
};

// Somebody who asks.
struct Visitor {
  bool by_loopback = false;
  Result<std::uint32_t> user;  // whose connection it is, or why that is not known
  std::optional<Credential> credential = {};
};

// The reason if not; a sentence for whoever was refused. `own_user` runs this program. Whose the
// connection is needs to be known only where `asks_whose` says so.
Result<void> may_look(StatusAccess access, const Visitor& visitor, std::uint32_t own_user);
bool asks_whose(StatusAccess access, bool by_loopback);

// Whether they may ask for something to be done; the reason if not. The user that runs this program
// and root, on this machine, however far it is opened to those who look; and whoever has shown a
// credential that is good for it.
Result<void> may_order(const Visitor& visitor, std::uint32_t own_user);

// Who gives way where all places of those who look are taken. Strangers are told no and no more, so
// whoever may look takes a stranger's place at any time, and strangers push out each other: of the
// source that has most of them whoever has been there longest, so that a flood pushes out itself.
// Among equals only those go that wait for their own next request.

// In what regard somebody is held; the greatest first to be served.
enum class Standing {
  stranger,  // may not look, so far
  admitted,  // may, as everybody may who comes this way
  proven,    // may by what it is: its user, or what it has shown of a secret
};

struct VisitPlace {
  Standing standing = Standing::stranger;
  bool is_idle = false;  // nobody is answering it
  std::string source;    // the address that it counts for
  std::chrono::steady_clock::time_point since{};
};

// Its index; nothing: none of them does for somebody like that.
std::optional<std::size_t> who_gives_way(const std::vector<VisitPlace>& taken, Standing newcomer);

// The names by which a machine is called, from its configuration alone: no name server is asked.

// Names by which this machine may be asked for, beside its addresses and localhost.
using HostNames = std::vector<std::string>;

// What this machine says of itself: gethostname(2), and the text of /etc/hosts and
// /etc/resolv.conf, empty where there is none.
struct HostFiles {
  std::string host;
  std::string hosts = {};
  std::string resolv = {};
};

// `given` (--host, --advertise), the name of the host with and without its domain, that name in
// each domain of resolv.conf, and the names that stand beside it in /etc/hosts. Each once, none
// empty.
HostNames host_names(HostNames given, const HostFiles& files);

}  // namespace cpprun
