// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/door.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "proto/text.h"
#include "rendezvous/io/program.h"
#include "rendezvous/status/bounds.h"

namespace cpprun {

namespace {

constexpr mode_t for_the_owner_alone = 0700;
constexpr int attempts_max = 3;

tl::unexpected<Error> cannot(const DoorDirectory& directory, const std::string& why) {
  return failure(fmt::format("the directory \"{}\" for control sockets {}", directory.path(), why));
}

// An open directory, addressed as /proc/self/fd/N: a socket path is limited to 107 bytes, and the
// real path may be longer. The directory also cannot be swapped meanwhile.
class OpenDirectory {
 public:
  explicit OpenDirectory(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}
  explicit operator bool() const { return bool(file_); }
  int get() const { return file_.get(); }
  sockaddr_un address_of(const std::string& name) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto path = fmt::format("/proc/self/fd/{}/{}", file_.get(), name);
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }

 private:
  FileDescriptor file_;
};

// Why the directory is unsuitable; empty if it belongs to this user and is closed to others.
std::string objection_to(const OpenDirectory& directory) {
  struct stat facts {};
  if (::fstat(directory.get(), &facts) != 0) return "cannot be examined: " + errno_text(errno);
  if (facts.st_uid != ::geteuid()) return fmt::format("is owned by uid {}", facts.st_uid);
  if ((facts.st_mode & 077) != 0) {
    return fmt::format("is accessible to other users (mode {:o}); chmod 700",
                       facts.st_mode & 0777U);
  }
  return {};
}

bool is_own(const std::string& directory) {
  struct stat facts {};
  return ::stat(directory.c_str(), &facts) == 0 && facts.st_uid == ::geteuid();
}

Result<OpenDirectory> make_directory(const DoorDirectory& place) {
  if (place.is_parent_own && !is_own(place.parent))
    return cannot(place, "is in a directory of another user");
  const auto path = place.path();
  if (::mkdir(path.c_str(), for_the_owner_alone) != 0 && errno != EEXIST) {
    return cannot(place, "cannot be created: " + errno_text(errno));
  }
  OpenDirectory directory(path);
  if (!directory) {
    const int wrong = errno;
    const bool is_link = wrong == ELOOP || wrong == ENOTDIR;
    return cannot(place, is_link ? "is not a directory" : "cannot be opened: " + errno_text(wrong));
  }
  if (auto wrong = objection_to(directory); !wrong.empty()) return cannot(place, wrong);
  return directory;
}

SocketProbe knock_at(const sockaddr_un& address) {
  SocketProbe probe_socket{
      .socket = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (!probe_socket.socket || ::connect(probe_socket.socket.get(), generic, sizeof address) != 0) {
    probe_socket.error_number = errno;
    probe_socket.socket.reset();
  }
  return probe_socket;
}

std::vector<std::string> names_in(const OpenDirectory& directory) {
  std::vector<std::string> names;
  const int again = ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::fdopendir(again), ::closedir);
  if (!open) {
    ::close(again);
    return names;
  }
  while (const dirent* entry = ::readdir(open.get())) {
    if (is_door(entry->d_name)) names.emplace_back(entry->d_name);
    if (names.size() >= bounds::doors_looked_at_max) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

void sweep(const OpenDirectory& directory) {
  const std::string host = machine_name();
  for (const auto& name : names_in(directory)) {
    if (!is_door_of(name, host) || !knock_at(directory.address_of(name)).is_stale()) continue;
    // Another process that sweeps at the same time may have removed it first.
    (void)::unlinkat(directory.get(), name.c_str(), 0);
  }
}

// Fails with EEXIST if the name is taken.
int rename_to(const OpenDirectory& directory, const std::string& from, const std::string& to) {
  constexpr unsigned no_replace = RENAME_NOREPLACE;
  if (::renameat2(directory.get(), from.c_str(), directory.get(), to.c_str(), no_replace) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // The file system does not support RENAME_NOREPLACE; a collision is practically impossible there.
  return ::renameat(directory.get(), from.c_str(), directory.get(), to.c_str()) == 0 ? 0 : errno;
}

// Returns the socket's name there, or an errno.
tl::expected<std::string, int> bind_in(const OpenDirectory& directory, int socket, int pid) {
  const std::string host = machine_name();
  // Bind under a hidden name first: a sweep by another process would remove a socket that is not
  // listening yet.
  const auto draft = fmt::format(".{}.new", door_name(host, pid, 1));
  (void)::unlinkat(directory.get(), draft.c_str(),
                   0);  // left by a process that was killed in between
  const auto address = directory.address_of(draft);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket, generic, sizeof address) != 0) return tl::unexpected(errno);
  int wrong = ::fchmodat(directory.get(), draft.c_str(), 0600, 0) == 0 ? 0 : errno;
  if (wrong == 0 && ::listen(socket, bounds::door_backlog) != 0) wrong = errno;
  for (int n = 1; (wrong == 0 || wrong == EEXIST) && n <= bounds::doors_of_one_name_max; ++n) {
    auto name = door_name(host, pid, n);
    wrong = rename_to(directory, draft, name);
    if (wrong == 0) return name;
  }
  (void)::unlinkat(directory.get(), draft.c_str(), 0);
  return tl::unexpected(wrong);
}

}  // namespace

Result<void> make_door_directory(const DoorDirectory& place) {
  const auto directory = make_directory(place);
  if (!directory) return tl::unexpected<Error>(directory.error());
  return {};
}

void remove_door(const std::string& path) {
  // Errors are harmless: a later sweep removes the socket, and other programs reuse the directory.
  (void)::unlink(path.c_str());
  (void)::rmdir(path.substr(0, path.rfind('/')).c_str());
}

Result<std::string> open_door(int socket, const DoorDirectory& place, int pid) {
  for (int attempt = 1;; ++attempt) {
    const auto directory = make_directory(place);
    if (!directory) return tl::unexpected<Error>(directory.error());
    sweep(*directory);
    const auto bound = bind_in(*directory, socket, pid);
    if (bound) return place.path() + "/" + *bound;
    // The last process to leave has removed the directory meanwhile.
    if (bound.error() != ENOENT || attempt == attempts_max) {
      return cannot(place, "cannot hold a socket: " + errno_text(bound.error()));
    }
  }
}

bool SocketProbe::is_stale() const {
  return error_number == ECONNREFUSED;
}

SocketProbe probe_socket(const std::string& path) {
  const auto slash = path.rfind('/');
  const OpenDirectory directory(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  if (!directory) return {.socket = {}, .error_number = errno};
  return knock_at(directory.address_of(path.substr(slash + 1)));
}

std::vector<std::string> doors_in(const DoorDirectory& place, std::string* why) {
  const OpenDirectory directory(place.path());
  if (!directory) {
    if (why != nullptr && errno != ENOENT) *why = errno_text(errno);
    return {};
  }
  return names_in(directory);
}

void sweep_doors(const DoorDirectory& place) {
  const OpenDirectory directory(place.path());
  if (directory && objection_to(directory).empty()) sweep(directory);
}

}  // namespace cpprun
