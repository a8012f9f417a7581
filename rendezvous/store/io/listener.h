// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Opens listening sockets: every interface over IPv6 and IPv4 at once, or the addresses of one
// name. The options set here are inherited by every accepted connection, which saves five system
// calls per client when ten thousand of them come at once.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

struct OpenPort {
  std::vector<FileDescriptor> sockets;  // one per address of the name; non-blocking, listening
  std::uint16_t port = 0;
  std::string address;  // of the first: "[::]:43211"
  // Where a host was named: each of its addresses that is listened on, as a number.
  std::vector<std::string> hosts;
};

// Fails with a clause such as `cannot listen on [::]:29400: Address already in use`.
// A name is looked up, which may take a name server many seconds: not while anybody is served.
Result<OpenPort> open_port(const std::string& host, std::uint16_t port);
// The same addresses once more, as `hosts` of an earlier one has them; nobody is asked.
Result<OpenPort> open_port(const std::vector<std::string>& hosts, std::uint16_t port);

// One that listens already, as somebody else has opened it.
Result<OpenPort> take_port(FileDescriptor socket);

// Raises the process' soft limit of open files to its hard limit: a client costs a descriptor, one
// of dialect A two. Returns the limit that holds now.
std::uint64_t raise_descriptor_limit();

// The descriptors from this number on are kept for agents. The kernel gives the lowest number that
// is free: who is given this one, or a higher one, shows that all below are taken.
int first_descriptor_for_links();
// How many those are.
std::size_t descriptors_for_links();

}  // namespace cpprun
