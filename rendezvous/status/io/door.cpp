// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/door.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr mode_t for_the_owner_alone = 0700;
constexpr int attempts_max = 3;

tl::unexpected<Error> cannot(const DoorFolder& folder, const std::string& why) {
  return failure(fmt::format("the directory \"{}\" for control sockets {}", folder.path(), why));
}

// An open directory, addressed as /proc/self/fd/N: a socket path is limited to 107 bytes, and the
// real path may be longer. The directory also cannot be swapped meanwhile.
class OpenFolder {
 public:
  explicit OpenFolder(const std::string& path)
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
std::string objection_to(const OpenFolder& folder) {
  struct stat facts {};
  if (::fstat(folder.get(), &facts) != 0) return "cannot be examined: " + errno_text(errno);
  if (facts.st_uid != ::geteuid()) return fmt::format("is owned by uid {}", facts.st_uid);
  if ((facts.st_mode & 077) != 0) {
    return fmt::format("is accessible to other users (mode {:o}); chmod 700",
                       facts.st_mode & 0777U);
  }
  return {};
}

bool is_own(const std::string& folder) {
  struct stat facts {};
  return ::stat(folder.c_str(), &facts) == 0 && facts.st_uid == ::geteuid();
}

Result<OpenFolder> make_folder(const DoorFolder& place) {
  if (place.is_parent_own && !is_own(place.parent))
    return cannot(place, "is in a directory of another user");
  const auto path = place.path();
  if (::mkdir(path.c_str(), for_the_owner_alone) != 0 && errno != EEXIST) {
    return cannot(place, "cannot be created: " + errno_text(errno));
  }
  OpenFolder folder(path);
  if (!folder) {
    const int wrong = errno;
    const bool is_link = wrong == ELOOP || wrong == ENOTDIR;
    return cannot(place, is_link ? "is not a directory" : "cannot be opened: " + errno_text(wrong));
  }
  if (auto wrong = objection_to(folder); !wrong.empty()) return cannot(place, wrong);
  return folder;
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

std::vector<std::string> names_in(const OpenFolder& folder) {
  std::vector<std::string> names;
  const int again = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

// The name that users know this machine by. Used only in socket names.
std::string own_host() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "localhost";
}

void sweep(const OpenFolder& folder) {
  const std::string host = own_host();
  for (const auto& name : names_in(folder)) {
    if (!is_door_of(name, host) || !knock_at(folder.address_of(name)).is_stale()) continue;
    // Another process that sweeps at the same time may have removed it first.
    (void)::unlinkat(folder.get(), name.c_str(), 0);
  }
}

// Fails with EEXIST if the name is taken.
int rename_to(const OpenFolder& folder, const std::string& from, const std::string& to) {
  constexpr unsigned no_replace = RENAME_NOREPLACE;
  if (::renameat2(folder.get(), from.c_str(), folder.get(), to.c_str(), no_replace) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // The file system does not support RENAME_NOREPLACE; a collision is practically impossible there.
  return ::renameat(folder.get(), from.c_str(), folder.get(), to.c_str()) == 0 ? 0 : errno;
}

// Returns the socket's name there, or an errno.
tl::expected<std::string, int> bind_in(const OpenFolder& folder, int socket, int pid) {
  const std::string host = own_host();
  // Bind under a hidden name first: a sweep by another process would remove a socket that is not
  // listening yet.
  const auto draft = fmt::format(".{}.new", door_name(host, pid, 1));
  (void)::unlinkat(folder.get(), draft.c_str(), 0);  // left by a process that was killed in between
  const auto address = folder.address_of(draft);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket, generic, sizeof address) != 0) return tl::unexpected(errno);
  int wrong = ::fchmodat(folder.get(), draft.c_str(), 0600, 0) == 0 ? 0 : errno;
  if (wrong == 0 && ::listen(socket, bounds::door_backlog) != 0) wrong = errno;
  for (int n = 1; (wrong == 0 || wrong == EEXIST) && n <= bounds::doors_of_one_name_max; ++n) {
    auto name = door_name(host, pid, n);
    wrong = rename_to(folder, draft, name);
    if (wrong == 0) return name;
  }
  (void)::unlinkat(folder.get(), draft.c_str(), 0);
  return tl::unexpected(wrong);
}

}  // namespace

Result<void> make_door_folder(const DoorFolder& place) {
  const auto folder = make_folder(place);
  if (!folder) return tl::unexpected<Error>(folder.error());
  return {};
}

void remove_door(const std::string& path) {
  // Errors are harmless: a later sweep removes the socket, and other programs reuse the directory.
  (void)::unlink(path.c_str());
  (void)::rmdir(path.substr(0, path.rfind('/')).c_str());
}

Result<std::string> open_door(int socket, const DoorFolder& place, int pid) {
  for (int attempt = 1;; ++attempt) {
    const auto folder = make_folder(place);
    if (!folder) return tl::unexpected<Error>(folder.error());
    sweep(*folder);
    const auto bound = bind_in(*folder, socket, pid);
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
  const OpenFolder folder(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  if (!folder) return {.socket = {}, .error_number = errno};
  return knock_at(folder.address_of(path.substr(slash + 1)));
}

std::vector<std::string> doors_in(const DoorFolder& place, std::string* why) {
  const OpenFolder folder(place.path());
  if (!folder) {
    if (why != nullptr && errno != ENOENT) *why = errno_text(errno);
    return {};
  }
  return names_in(folder);
}

void sweep_doors(const DoorFolder& place) {
  const OpenFolder folder(place.path());
  if (folder && objection_to(folder).empty()) sweep(folder);
}

}  // namespace cpprun
