// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether the address at which the nodes meet is this machine's, as far as it can tell, and the
// sentences that help somebody who got it wrong. Pure: names are resolved in io/addresses.
//
// An address that is not this machine's may still be the right one for its master: a Kubernetes
// Service, a NAT or a forwarded port leads here and no interface shows it. So what may work is
// questioned aloud and tried; only what cannot work is refused.

#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "proto/result.h"

namespace cpprun {

enum class Whose {
  nobodys,   // no address is known for it
  loopback,  // each machine's own, and none of the others'
  ours,
  others,
  shared,  // a name that stands for this machine and for others
};

// Whose a host's literal addresses are.
Whose whose(const std::vector<std::string>& addresses,
            const std::vector<NetworkInterface>& interfaces);

// Those of them that are not this machine's.
std::vector<std::string> those_of_others(const std::vector<std::string>& addresses,
                                         const std::vector<NetworkInterface>& interfaces);

// "10.0.0.5 (eth0), 192.168.1.5 (ib0)": what others may know this machine by.
std::string own_addresses_text(const std::vector<NetworkInterface>& interfaces);

// Whether this machine is the one the endpoint means. Fails for a name that means several machines:
// each of them would take itself for the master.
Result<bool> is_meant(const Config& config, const std::vector<std::string>& addresses,
                      const std::vector<NetworkInterface>& interfaces);

struct Doubt {
  std::string sentence;
  // Right only if some NAT or forwarding makes it so. Weaker doubts are worth a word only while
  // somebody is waited for.
  bool strong = false;
  friend bool operator==(const Doubt&, const Doubt&) = default;
};

// The warning to the master about the address at which it is to be met.
std::optional<Doubt> doubt_of_master(const Config& config,
                                     const std::vector<std::string>& addresses,
                                     const std::vector<NetworkInterface>& interfaces);

// The hint to a node that found no master at these addresses; empty, or begins with "; ".
std::string hint_for_dialler(const Config& config, const std::vector<std::string>& addresses,
                             const std::vector<NetworkInterface>& interfaces);

// The master cannot resolve its own name, so its workers would not find their store.
std::string unresolved_text(const Config& config, const std::string& why,
                            const std::vector<NetworkInterface>& interfaces);

// The same for the others, who wait for this master meanwhile.
std::string unresolved_for_others(const Config& config, const std::string& why);

}  // namespace cpprun
