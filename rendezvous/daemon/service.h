// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund as a service, as values: the socket that a service manager passes on, what the manager is
// told, and the sandbox.

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

// A socket that a service manager has opened for us and passed on, by the protocol of systemd:
// sd_listen_fds(3). Pure: what the environment says, and whether what was passed can be served on.

// What a service manager tells us alone: nobody whom we start is to take it for their own.
inline constexpr std::array service_variables = {"LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID",
                                                 "LISTEN_FDNAMES", "NOTIFY_SOCKET"};

inline constexpr int first_passed_descriptor = 3;
// More are not looked at: one is all that is taken.
inline constexpr int passed_descriptors_shown_max = 4;

struct Activation {
  int count = 0;       // of descriptors from the first on
  std::string remark;  // for the log, where the variables are there but not for us; else empty
};

// `pid`: ours. Fails where the variables are meant for us and cannot be understood.
Result<Activation> activation_of(const Environment& environment, int pid);

// What a passed descriptor is.
struct PassedFacts {
  enum class Kind { not_open, no_socket, tcp, udp, unix_socket, other_socket };
  Kind kind = Kind::not_open;
  bool listens = false;
  std::string address = {};  // of a TCP or UDP socket: "[::]:29400"
};

// "descriptor 3 is a UDP socket on [::]:29400".
std::string passed_text(int descriptor, const PassedFacts& facts);

// Whether these, from the first on, are the one listening TCP socket that can be served on. `count`
// may be more than were looked at.
Result<void> judge_passed(int count, const std::vector<PassedFacts>& facts);

// What a service manager is told by the protocol of sd_notify(3), and where it listens. Pure.

// A path in a socket's address ends with a zero; a name without a file does not, but systemd takes
// none that is longer either.
inline constexpr std::size_t notify_name_bytes_max = 107;

// The name of the manager's socket as the kernel takes it: a path, or a zero and a name without a
// file. Empty: nobody wants to be told. Fails with why what the environment says is no such name.
Result<std::string> notify_address(const Environment& environment);

// One datagram each.
std::string ready_message(std::string_view address);
std::string stopping_message();

// What a daemon gives up before it serves, as a value, in the terms of Landlock (landlock(7)):
// which rights there are on a kernel, which of them stay, and for which files. Pure.

// Landlock's own numbers, which no kernel changes; the headers of older systems lack the later.
namespace landlock {
constexpr std::uint64_t write_file = 1ULL << 1;
constexpr std::uint64_t read_file = 1ULL << 2;
constexpr std::uint64_t read_dir = 1ULL << 3;
constexpr std::uint64_t remove_dir = 1ULL << 4;
constexpr std::uint64_t remove_file = 1ULL << 5;
constexpr std::uint64_t make_sock = 1ULL << 9;
constexpr std::uint64_t files_1 = (1ULL << 13) - 1;    // of the first kernel that had it, 5.13
constexpr std::uint64_t refer = 1ULL << 13;            // 2
constexpr std::uint64_t truncate = 1ULL << 14;         // 3
constexpr std::uint64_t ioctl_dev = 1ULL << 15;        // 5
constexpr std::uint64_t bind_tcp = 1ULL << 0;          // 4
constexpr std::uint64_t connect_tcp = 1ULL << 1;       // 4
constexpr std::uint64_t abstract_sockets = 1ULL << 0;  // 6
constexpr std::uint64_t signals = 1ULL << 1;           // 6
// Those that a file has as well as a folder: a rule for a file may have no others.
constexpr std::uint64_t of_a_file = write_file | read_file | truncate | ioctl_dev | 1ULL;
}  // namespace landlock

// What the daemon still touches.
struct SandboxWants {
  std::vector<std::string> readable = {};  // files, and folders with all that is in them
  std::optional<DoorFolder> door = {};     // where the socket for tools is
  bool connects = false;                   // to others of its kind, and to etcd
};

struct SandboxRules {
  struct Path {
    std::string path;
    std::uint64_t rights = 0;  // for it and what is in it
    bool is_link_followed = true;
    friend bool operator==(const Path&, const Path&) = default;
  };
  // Given up everywhere but where a rule below gives it back.
  std::uint64_t files = 0;
  std::uint64_t ports = 0;
  std::uint64_t scopes = 0;  // from here to processes outside
  std::vector<Path> paths = {};
};

// `version`: of Landlock in the running kernel, 1 or higher.
SandboxRules sandbox_rules(int version, const SandboxWants& wants);

// What is in force, for the log.
struct SandboxInForce {
  int version = 0;                         // of Landlock; 0: there is none
  bool has_failed = false;                 // it is there, and could not be put in force
  std::string why_none = {};               // why it is 0
  bool no_privileges = false;              // none can be gained, by whatever is executed
  bool no_dumps = false;                   // of memory, and nobody of the same user looks into it
  std::vector<std::string> left_out = {};  // paths for which no rule could be made, and why
};

// "sandbox: no files but the socket for tools, no new privileges".
std::string sandbox_line(const SandboxInForce& in_force, const SandboxWants& wants);

}  // namespace cpprun
