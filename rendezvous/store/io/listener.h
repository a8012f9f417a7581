// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Opens listening sockets: all interfaces over IPv6 and IPv4 at once, or the addresses of one name.
// Accepted connections inherit the options set here, which saves five system calls per client when
// ten thousand of them connect at once.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

struct OpenPort {
  std::vector<FileDescriptor> sockets;  // one per address of the name; non-blocking, listening
  std::uint16_t port = 0;
  std::string address;  // of the first socket: "[::]:43211"
  // If a host was named: each of its addresses that is listened on, as a number.
  std::vector<std::string> hosts;
};

// Fails with a clause such as `cannot listen on [::]:29400: Address already in use`. Looks up
// names, which may take many seconds: must not be called while clients are being served.
Result<OpenPort> open_port(const std::string& host, std::uint16_t port);
// Opens the addresses in `hosts` of an earlier result again, without a lookup.
Result<OpenPort> open_port(const std::vector<std::string>& hosts, std::uint16_t port);

// Takes a socket that another process has opened and that listens already.
Result<OpenPort> take_port(FileDescriptor socket);

// Raises the soft limit of open files of this process to its hard limit: a client needs a
// descriptor, one of dialect A two. Returns the limit that is in force now.
std::uint64_t raise_descriptor_limit();

// Descriptors from this number on are reserved for agents. The kernel assigns the lowest free
// number: a connection that gets this one or a higher one shows that all below are in use.
int first_descriptor_for_links();
// How many descriptors are reserved.
std::size_t descriptors_for_links();

}  // namespace cpprun
