// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Opens listening sockets: all interfaces over IPv6 and IPv4 at once, or the addresses of one name.
// Accepted connections inherit the options set here, which saves five system calls per client when
// ten thousand of them connect at once.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/owner_process.h"

namespace cpprun {

// The file of a Unix socket: removed with this object, unless another process has replaced it, or
// this one is a fork of its creator.
class SocketFile {
 public:
  SocketFile() = default;
  explicit SocketFile(std::string path);
  SocketFile(SocketFile&& other) noexcept { *this = std::move(other); }
  SocketFile& operator=(SocketFile&& other) noexcept;
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile();

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t number_ = 0;
  OwnerProcess owner_;
};

struct OpenPort {
  std::vector<FileDescriptor> sockets;  // one per address of the name; non-blocking, listening
  std::uint16_t port = 0;
  std::string address;  // of the first socket: "[::]:43211"
  // If a host was named: each of its addresses that is listened on, as a number.
  std::vector<std::string> hosts;
  SocketFile file = {};    // of a Unix socket that was opened here
  bool is_passed = false;  // its other owners go on using it
};

// `host` is a name, an address or "unix:PATH"; empty: every interface. A Unix socket is open to
// this user only; a stale one is replaced. Fails with a clause such as `cannot
// listen on [::]:29400: Address already in use`. Looks up names, which may take many seconds: must
// not be called while clients are being served.
Result<OpenPort> open_port(const std::string& host, std::uint16_t port);
// Opens the addresses in `hosts` of an earlier result again, without a lookup.
Result<OpenPort> open_port(const std::vector<std::string>& hosts, std::uint16_t port);

// Takes a socket that another process has opened and that listens already.
Result<OpenPort> take_port(FileDescriptor socket);

// Takes all sockets of a port that another program in this process has opened; `hosts` as there.
Result<OpenPort> adopt_port(const std::vector<int>& sockets, std::vector<std::string> hosts);

// Raises the soft limit of open files of this process to its hard limit: a client needs a
// descriptor, one of dialect A two. Returns the limit that is in force now.
std::uint64_t raise_descriptor_limit();

// Descriptors from this number on are reserved for agents. The kernel assigns the lowest free
// number: a connection that gets this one or a higher one shows that all below are in use.
int first_descriptor_for_links();
// How many descriptors are reserved.
std::size_t descriptors_for_links();

}  // namespace cpprun
