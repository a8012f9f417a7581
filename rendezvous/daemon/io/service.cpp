// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include "proto/text.h"
#include "rendezvous/daemon/service.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {

namespace {

using Kind = PassedFacts::Kind;

int option_of(int descriptor, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  // These options exist for every socket, and -1 is not a valid value of any.
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
    return failure("cannot serve on the passed socket: " + errno_text(errno));
  }
  return FileDescriptor(first_passed_descriptor);
}

static_assert(notify_name_bytes_max == sizeof(sockaddr_un::sun_path) - 1);

std::string ServiceNotifier::connect(const std::string& address) {
  if (address.empty()) return {};
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_text(errno);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::size_t size = address.copy(name.sun_path, sizeof name.sun_path - 1);
  // The length of an abstract name is explicit; zero bytes at its end would be part of the name.
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size +
                                             (address.front() == '\0' ? 0 : 1));
  const auto* const generic = reinterpret_cast<const sockaddr*>(&name);
  if (::connect(socket.get(), generic, length) != 0) return errno_text(errno);
  socket_ = std::move(socket);
  return {};
}

std::string ServiceNotifier::say(std::string_view message) {
  if (!socket_) return {};
  const auto sent =
      ::send(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? errno_text(errno) : std::string();
}

namespace {

// The C library has no wrappers for these system calls, and older headers lack the numbers. They
// are the same on all supported processors.
constexpr long create_ruleset = 444;
constexpr long add_rule = 445;
constexpr long restrict_self = 446;
constexpr unsigned ask_version = 1;
constexpr int for_path = 1;
constexpr int for_port = 2;

// The kernel's layout. An older kernel accepts the larger struct as long as the fields that it does
// not know are 0.
struct RulesetOfKernel {
  std::uint64_t files;
  std::uint64_t ports;
  std::uint64_t scopes;
};
struct [[gnu::packed]] PathOfKernel {
  std::uint64_t rights;
  std::int32_t directory;
};
struct PortOfKernel {
  std::uint64_t rights;
  std::uint64_t port;
};

FileDescriptor open_path(const SandboxRules::Path& rule) {
  const int flags = O_PATH | O_CLOEXEC | (rule.is_link_followed ? 0 : O_NOFOLLOW | O_DIRECTORY);
  return FileDescriptor(::open(rule.path.c_str(), flags));
}

// Adds a rule. Returns why that failed, or an empty string.
std::string add_path(int ruleset, const SandboxRules::Path& rule) {
  const FileDescriptor path = open_path(rule);
  struct stat facts {};
  if (!path || ::fstat(path.get(), &facts) != 0) return errno_text(errno);
  const auto rights = S_ISDIR(facts.st_mode) ? rule.rights : rule.rights & landlock::of_a_file;
  const PathOfKernel words{rights, path.get()};
  return ::syscall(add_rule, ruleset, for_path, &words, 0U) == 0 ? "" : errno_text(errno);
}

// Enables Landlock. Returns why that failed, or an empty string.
std::string restrict_to(const SandboxRules& rules, std::vector<std::string>& left_out) {
  const RulesetOfKernel words{rules.files, rules.ports, rules.scopes};
  const FileDescriptor ruleset(
      static_cast<int>(::syscall(create_ruleset, &words, sizeof words, 0U)));
  if (!ruleset) return errno_text(errno);
  for (const auto& rule : rules.paths) {
    const std::string why = add_path(ruleset.get(), rule);
    if (!why.empty()) left_out.push_back(fmt::format("{}: {}", rule.path, why));
  }
  // Each job's store uses a port that the kernel picks.
  const PortOfKernel any{landlock::bind_tcp, 0};
  const bool is_port_missing =
      rules.ports != 0 && ::syscall(add_rule, ruleset.get(), for_port, &any, 0U) != 0;
  if (is_port_missing) return errno_text(errno);
  return ::syscall(restrict_self, ruleset.get(), 0U) == 0 ? "" : errno_text(errno);
}

}  // namespace

SandboxInForce enter_sandbox(const SandboxWants& wants) {
  SandboxInForce got;
  // Landlock requires this for processes without CAP_SYS_ADMIN.
  got.no_privileges = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  const auto version = ::syscall(create_ruleset, nullptr, std::size_t{0}, ask_version);
  if (version <= 0) {
    got.why_none = errno_text(version < 0 ? errno : ENOSYS);
  } else {
    got.why_none = restrict_to(sandbox_rules(static_cast<int>(version), wants), got.left_out);
    got.has_failed = !got.why_none.empty();
    if (!got.has_failed) got.version = static_cast<int>(version);
  }
#ifdef __SANITIZE_ADDRESS__
  // LeakSanitizer traces this process, which needs it to be dumpable.
#else
  got.no_dumps = ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
#endif
  return got;
}

}  // namespace cpprun
