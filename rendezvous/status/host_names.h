// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The names by which a machine is called, from its configuration alone: no name server is asked.

#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

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
