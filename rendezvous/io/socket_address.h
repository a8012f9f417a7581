// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Between the kernel's socket addresses and ours.

#include <sys/socket.h>

#include <string>

#include "rendezvous/peer_address.h"

namespace cpprun {

// All zeros for a family that is neither IPv4 nor IPv6.
PeerAddress peer_of(const sockaddr_storage& address);

// The address a socket is bound to.
PeerAddress local_address_of(int fd);

// The text of an errno value, e.g. "Address already in use".
std::string errno_text(int error);

}  // namespace cpprun
