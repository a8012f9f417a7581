// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/passed_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "proto/text.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {

namespace {

using Kind = PassedFacts::Kind;

int option_of(int descriptor, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  // A socket answers these; -1 is no answer of any.
  (void)::getsockopt(descriptor, SOL_SOCKET, name, &value, &size);
  return value;
}

Kind kind_of(int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return Kind::not_open;
  if (!S_ISSOCK(facts.st_mode)) return Kind::no_socket;
  const int family = option_of(descriptor, SO_DOMAIN);
  if (family == AF_UNIX) return Kind::unix_socket;
  if (family != AF_INET && family != AF_INET6) return Kind::other_socket;
  const int protocol = option_of(descriptor, SO_PROTOCOL);
  if (protocol == IPPROTO_TCP) return Kind::tcp;
  return protocol == IPPROTO_UDP ? Kind::udp : Kind::other_socket;
}

PassedFacts look_at(int descriptor) {
  PassedFacts facts{.kind = kind_of(descriptor)};
  if (facts.kind != Kind::tcp && facts.kind != Kind::udp) return facts;
  facts.listens = option_of(descriptor, SO_ACCEPTCONN) == 1;
  facts.address = local_address_of(descriptor).text();
  return facts;
}

}  // namespace

Result<FileDescriptor> take_passed_socket(const Activation& activation) {
  if (activation.count == 0) return FileDescriptor();
  std::vector<PassedFacts> facts;
  const int looked_at = std::min(activation.count, passed_descriptors_shown_max);
  for (int at = 0; at < looked_at; ++at) facts.push_back(look_at(first_passed_descriptor + at));
  if (auto fit = judge_passed(activation.count, facts); !fit) {
    return tl::unexpected<Error>(fit.error());
  }
  const int flags = ::fcntl(first_passed_descriptor, F_GETFL);
  if (::fcntl(first_passed_descriptor, F_SETFD, FD_CLOEXEC) != 0 ||
      ::fcntl(first_passed_descriptor, F_SETFL, flags | O_NONBLOCK) != 0) {
    return failure("cannot serve on the socket that was passed: " + errno_text(errno));
  }
  return FileDescriptor(first_passed_descriptor);
}

}  // namespace cpprun
