#pragma once
// Which machine a host name or an address means. Names are resolved here and nowhere else in the
// launcher, and only at the start: by whoever may be the master.

#include <string>
#include <vector>

#include "launcher/interfaces.h"

namespace cpprun::io {

// The literal addresses a host stands for: itself where it is one, otherwise what its name resolves
// to; nothing where it does not resolve.
std::vector<std::string> addresses_of(const std::string& host);

// Whether the host is this machine, by any of its names, aliases and addresses.
bool means_this_machine(const std::string& host, const std::string& own_name,
                        const std::vector<NetworkInterface>& interfaces);

}  // namespace cpprun::io
