// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund as a service, as pure values: the socket that a service manager passes on, the messages
// to the manager, and the sandbox rules. io/service.h has the effects.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"
#include "rendezvous/status/door_places.h"

namespace cpprun {

// --- a socket that a service manager opened and passed on, as in sd_listen_fds(3) ---

// Variables that are meant for this process only. Child processes must not inherit them.
inline constexpr std::array service_variables = {"LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID",
                                                 "LISTEN_FDNAMES", "NOTIFY_SOCKET"};

inline constexpr int first_passed_descriptor = 3;
// Only one descriptor is accepted; further ones are examined only for the error message.
inline constexpr int passed_descriptors_shown_max = 4;

struct Activation {
  int count = 0;       // number of descriptors, starting at the first
  std::string remark;  // for the log if the variables are set for another process; else empty
};

// `pid` is this process. Fails if the variables are meant for this process and are invalid.
Result<Activation> activation_of(const Environment& environment, int pid);

// The type and state of a passed descriptor.
struct PassedFacts {
  enum class Kind { not_open, no_socket, tcp, udp, unix_socket, other_socket };
  Kind kind = Kind::not_open;
  bool listens = false;
  std::string address = {};  // of a TCP or UDP socket: "[::]:29400"
};

// "descriptor 3 is a UDP socket on [::]:29400".
std::string passed_text(int descriptor, const PassedFacts& facts);

// Succeeds if the descriptors are exactly one listening TCP socket. `count` may be larger than
// facts.size(), since only the first few descriptors are examined.
Result<void> judge_passed(int count, const std::vector<PassedFacts>& facts);

// --- messages to the service manager, as in sd_notify(3) ---

// A path in a Unix socket address ends with a zero byte. An abstract name does not need one, but
// systemd rejects a longer one as well.
inline constexpr std::size_t notify_name_bytes_max = 107;

// The name of the manager's socket as the kernel takes it: a path, or a zero byte followed by an
// abstract name. Empty: no notification was requested. Fails if NOTIFY_SOCKET is not such a name.
Result<std::string> notify_address(const Environment& environment);

// Each message is one datagram.
std::string ready_message(std::string_view address);
std::string stopping_message();

// --- the sandbox, in terms of landlock(7): which rights remain, and for which files ---

// Landlock's own constants. They are stable across kernels; headers of older systems lack the newer
// ones. The numbers in the trailing comments are the Landlock versions that introduced them.
namespace landlock {
constexpr std::uint64_t write_file = 1ULL << 1;
constexpr std::uint64_t read_file = 1ULL << 2;
constexpr std::uint64_t read_dir = 1ULL << 3;
constexpr std::uint64_t remove_dir = 1ULL << 4;
constexpr std::uint64_t remove_file = 1ULL << 5;
constexpr std::uint64_t make_sock = 1ULL << 9;
constexpr std::uint64_t files_1 = (1ULL << 13) - 1;    // version 1 (Linux 5.13)
constexpr std::uint64_t refer = 1ULL << 13;            // 2
constexpr std::uint64_t truncate = 1ULL << 14;         // 3
constexpr std::uint64_t ioctl_dev = 1ULL << 15;        // 5
constexpr std::uint64_t bind_tcp = 1ULL << 0;          // 4
constexpr std::uint64_t connect_tcp = 1ULL << 1;       // 4
constexpr std::uint64_t abstract_sockets = 1ULL << 0;  // 6
constexpr std::uint64_t signals = 1ULL << 1;           // 6
// The rights that apply to a file as well as to a directory. A rule for a file may contain no
// others.
constexpr std::uint64_t of_a_file = write_file | read_file | truncate | ioctl_dev | 1ULL;
}  // namespace landlock

// What the daemon needs access to while it serves.
struct SandboxWants {
  std::vector<std::string> readable = {};  // files, and directories with all their contents
  std::optional<DoorDirectory> door = {};  // directory of the control socket
  bool connects = false;                   // to other members and to etcd
};

struct SandboxRules {
  struct Path {
    std::string path;
    std::uint64_t rights = 0;  // for the path and everything below it
    bool is_link_followed = true;
    friend bool operator==(const Path&, const Path&) = default;
  };
  // Dropped everywhere unless a rule in `paths` grants it again.
  std::uint64_t files = 0;
  std::uint64_t ports = 0;
  std::uint64_t scopes = 0;  // restrict access from here to processes outside the sandbox
  std::vector<Path> paths = {};
};

// `version` is the Landlock version of the running kernel, at least 1.
SandboxRules sandbox_rules(int version, const SandboxWants& wants);

// The restrictions that are in force, for the log.
struct SandboxInForce {
  int version = 0;                         // of Landlock; 0: not available
  bool has_failed = false;                 // Landlock is available but could not be enabled
  std::string why_none = {};               // why the version is 0
  bool no_privileges = false;              // exec cannot gain privileges
  bool no_dumps = false;                   // no core dumps, and no ptrace by the same user
  std::vector<std::string> left_out = {};  // paths without a rule, each with the reason
};

// "sandbox: no file access except the control socket, no new privileges".
std::string sandbox_line(const SandboxInForce& in_force, const SandboxWants& wants);

}  // namespace cpprun
