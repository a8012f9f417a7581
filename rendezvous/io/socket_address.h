// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Between the kernel's socket addresses and ours.

#include <sys/socket.h>

#include "rendezvous/peer_address.h"

namespace cpprun {

// All zeros for a family that is neither IPv4 nor IPv6.
PeerAddress peer_of(const sockaddr_storage& address);

// The address a socket is bound to.
PeerAddress local_address_of(int fd);
// The address of its other end.
PeerAddress peer_address_of(int fd);

}  // namespace cpprun
