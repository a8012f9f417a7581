// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// The kernel cuts the backlog down to somaxconn.
constexpr int backlog_max = 1 << 16;

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

template <class Unit, class DurationType>
int count_of(DurationType duration) {
  return static_cast<int>(std::chrono::duration_cast<Unit>(duration).count());
}

// Sets the options that accepted connections inherit. None of them is worth a failure.
void set_inherited_options(int fd) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  (void)set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  (void)set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  (void)set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, count_of<seconds>(bounds::store_keepalive_idle));
  (void)set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL,
                   count_of<seconds>(bounds::store_keepalive_interval));
  (void)set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                   count_of<milliseconds>(bounds::store_peer_timeout));
}

// One attempt. Returns the errno of the call that failed, or 0. `is_bound`: bind() succeeded.
int listen_once(const addrinfo& address, std::uint16_t port, bool dual_stack, FileDescriptor& out,
                bool& is_bound) {
  FileDescriptor fd(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  sockaddr_storage bound{};
  std::memcpy(&bound, address.ai_addr, address.ai_addrlen);
  if (address.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(bound).sin6_port = htons(port);
    if (!set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, dual_stack ? 0 : 1)) return errno;
  } else {
    reinterpret_cast<sockaddr_in&>(bound).sin_port = htons(port);
  }
  // Allows a port to be opened again at once after it was served.
  if (!set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1)) return errno;
  set_inherited_options(fd.get());
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&bound), address.ai_addrlen) != 0) return errno;
  is_bound = true;
  if (::listen(fd.get(), backlog_max) != 0) return errno;
  out = std::move(fd);
  return 0;
}

// Returns the errno of the call that failed, or 0.
//
// Linux lets several sockets with SO_REUSEADDR bind one port as long as none of them listens. If
// two of them start to listen within some fifty nanoseconds, each sees the other in that state and
// *both* get EADDRINUSE (inet_csk_listen_start() announces before it checks). Two nodes started on
// one machine would then both search for the node that hosts. So a socket that could bind and got
// this error tries again: if another one listens by then, bind() fails.
int try_listen(const addrinfo& address, std::uint16_t port, bool dual_stack, FileDescriptor& out) {
  int error = 0;
  for (int attempt = 0; attempt < bounds::listen_attempts_max; ++attempt) {
    bool is_bound = false;
    error = listen_once(address, port, dual_stack, out, is_bound);
    if (error != EADDRINUSE || !is_bound) break;
  }
  return error;
}

Result<AddressList> resolve(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | flags;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  // Without a host the list holds both wildcards; then getaddrinfo requires a service, here "0".
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), "0", &hints, &list);
  if (error != 0) {
    return failure(fmt::format("cannot listen on \"{}\": {}", host, gai_strerror(error)));
  }
  return AddressList(list, &freeaddrinfo);
}

bool is_absent(int error) {
  return error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
}

std::string address_text(const std::string& host, std::uint16_t port) {
  if (host.empty()) return fmt::format("[::]:{}", port);
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::string socket_error_text(int error) {
  const bool no_descriptors = error == EMFILE;
  return errno_text(error) + (no_descriptors ? "; raise the limit of open files (ulimit -Hn)" : "");
}

// One socket for IPv6 and IPv4, or for IPv4 only if the machine has no IPv6.
Result<OpenPort> open_wildcard(const addrinfo* list, std::uint16_t port) {
  OpenPort open;
  FileDescriptor socket;
  int error = EAFNOSUPPORT;
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* at = list; at != nullptr && !socket && is_absent(error);
         at = at->ai_next) {
      if (at->ai_family == family) error = try_listen(*at, port, true, socket);
    }
  }
  if (!socket) {
    return failure(
        fmt::format("cannot listen on {}: {}", address_text("", port), socket_error_text(error)));
  }
  open.sockets.push_back(std::move(socket));
  return open;
}

// "fe80::1%eth0": with its interface where one is needed, which a PeerAddress does not have.
std::string numeric_host_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST] = {};
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (getsockname(fd, name, &size) != 0) return "";
  if (getnameinfo(name, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

// Opens every address of the name, all on the same port.
Result<OpenPort> open_named(const addrinfo* list, const std::string& host, std::uint16_t port) {
  OpenPort open;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    FileDescriptor socket;
    const int error = try_listen(*at, port, false, socket);
    // "localhost" often has an IPv6 address on machines that have no IPv6.
    if (is_absent(error) && (at->ai_next != nullptr || !open.sockets.empty())) continue;
    if (error != 0) {
      return failure(fmt::format("cannot listen on {}: {}", address_text(host, port),
                                 socket_error_text(error)));
    }
    port = local_address_of(socket.get()).port;
    open.hosts.push_back(numeric_host_of(socket.get()));
    open.sockets.push_back(std::move(socket));
  }
  return open;
}

// Whether it takes IPv6 and IPv4 on every interface, as a socket opened without a host does.
bool is_on_every_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (getsockname(fd, name, &size) != 0 || address.ss_family != AF_INET6) return false;
  const auto& bound = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  int is_v6_alone = 1;
  socklen_t length = sizeof is_v6_alone;
  return IN6_IS_ADDR_UNSPECIFIED(&bound) &&
         getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_v6_alone, &length) == 0 && is_v6_alone == 0;
}

// --- Unix sockets --------------------------------------------------------------------------------

Result<FileDescriptor> unix_socket() {
  FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return failure("cannot open a Unix socket: " + socket_error_text(errno));
  return fd;
}

// Held from bind() to listen(). Until it listens, a socket looks as stale as that of a
// killed process, so another process would replace it. The file is removed at the end.
class PathLock {
 public:
  explicit PathLock(const std::string& path) : name_(path + ".lock") {}
  ~PathLock() {
    if (!file_) return;
    (void)::unlink(name_.c_str());
    // Closing alone would not end it while a fork has a copy.
    (void)::flock(file_.get(), LOCK_UN);
  }
  PathLock(const PathLock&) = delete;
  PathLock& operator=(const PathLock&) = delete;

  bool is_taken() const { return static_cast<bool>(file_); }
  // Returns an errno, or 0. EADDRINUSE: another process is opening the path, and will serve there.
  int take() {
    constexpr mode_t for_this_user = 0600;
    for (int attempt = 0; attempt < bounds::listen_attempts_max; ++attempt) {
      FileDescriptor file(
          ::open(name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, for_this_user));
      if (!file) return errno;
      if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? EADDRINUSE : errno;
      }
      if (!is_named(file.get())) continue;  // its last owner removed it meanwhile
      file_ = std::move(file);
      return 0;
    }
    return EADDRINUSE;
  }

 private:
  bool is_named(int file) const {
    struct stat own {};
    struct stat named {};
    return ::fstat(file, &own) == 0 && ::lstat(name_.c_str(), &named) == 0 &&
           own.st_dev == named.st_dev && own.st_ino == named.st_ino;
  }

  const std::string name_;
  FileDescriptor file_;
};

// Left by a process that was killed.
bool is_stale(const sockaddr* name, socklen_t size) {
  const Result<FileDescriptor> client = unix_socket();
  return client && connect(client->get(), name, size) != 0 && errno == ECONNREFUSED;
}

Result<OpenPort> open_unix(const std::string& host) {
  const std::string path = unix_path(host);
  sockaddr_storage address{};
  const Result<socklen_t> size = fill_unix_address(path, address);
  if (!size) return tl::unexpected<Error>(size.error());
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  Result<FileDescriptor> fd = unix_socket();
  if (!fd) return tl::unexpected<Error>(fd.error());
  PathLock lock(path);
  int error = lock.take();
  if (error == 0 && bind(fd->get(), name, *size) != 0) error = errno;
  // Without the lock another process is opening the path, and nothing is stale.
  if (error == EADDRINUSE && lock.is_taken() && is_stale(name, *size) &&
      ::unlink(path.c_str()) == 0) {
    error = bind(fd->get(), name, *size) == 0 ? 0 : errno;
  }
  OpenPort open;
  if (error == 0) open.file = SocketFile(path);
  // It cannot be connected to before it listens.
  constexpr mode_t for_this_user = 0600;
  if (error == 0 && ::chmod(path.c_str(), for_this_user) != 0) error = errno;
  if (error == 0 && ::listen(fd->get(), backlog_max) != 0) error = errno;
  if (error != 0) {
    return failure(fmt::format("cannot listen on {}: {}", host, socket_error_text(error)));
  }
  open.address = host;
  open.sockets.push_back(std::move(*fd));
  return open;
}

// Empty if it is no Unix socket.
std::string unix_address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  if (address.ss_family != AF_UNIX) return "";
  // A name without a path (abstract, or none) begins with a NUL.
  const auto& local = reinterpret_cast<const sockaddr_un&>(address);
  return std::string(unix_prefix) + local.sun_path;
}

OpenPort with_address(OpenPort open) {
  const PeerAddress local = local_address_of(open.sockets.front().get());
  open.port = local.port;
  open.address = local.text();
  return open;
}

}  // namespace

SocketFile::SocketFile(std::string path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return;  // then there is nothing to remove
  device_ = facts.st_dev;
  number_ = facts.st_ino;
  path_ = std::move(path);
}

SocketFile& SocketFile::operator=(SocketFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(number_, other.number_);
  std::swap(owner_, other.owner_);
  return *this;
}

SocketFile::~SocketFile() {
  struct stat facts {};
  if (path_.empty() || !owner_.is_this() || ::lstat(path_.c_str(), &facts) != 0) return;
  if (facts.st_dev == device_ && facts.st_ino == number_) (void)::unlink(path_.c_str());
}

Result<OpenPort> open_port(const std::string& host, std::uint16_t port) {
  if (host.starts_with(unix_prefix)) return open_unix(host);
  const Result<AddressList> list = resolve(host, 0);
  if (!list) return tl::unexpected<Error>(list.error());
  return (host.empty() ? open_wildcard(list->get(), port) : open_named(list->get(), host, port))
      .map(with_address);
}

Result<OpenPort> open_port(const std::vector<std::string>& hosts, std::uint16_t port) {
  OpenPort all;
  for (const std::string& host : hosts) {
    const Result<AddressList> list = resolve(host, AI_NUMERICHOST);
    if (!list) return tl::unexpected<Error>(list.error());
    Result<OpenPort> open = open_named(list->get(), host, port);
    if (!open) return open;
    port = local_address_of(open->sockets.front().get()).port;
    std::ranges::move(open->sockets, std::back_inserter(all.sockets));
    all.hosts.push_back(host);
  }
  if (all.sockets.empty()) return failure("cannot listen: no address was given");
  return with_address(std::move(all));
}

Result<OpenPort> take_port(FileDescriptor socket) {
  if (std::string address = unix_address_of(socket.get()); !address.empty()) {
    OpenPort open;
    open.address = std::move(address);
    open.sockets.push_back(std::move(socket));
    open.is_passed = true;
    return open;
  }
  const PeerAddress local = local_address_of(socket.get());
  if (local.port == 0) return failure("cannot serve on a socket that is not bound to a port");
  set_inherited_options(socket.get());
  OpenPort open;
  if (!is_on_every_address(socket.get())) {
    // An IPv4-mapped IPv6 address is opened again as IPv4, because an IPv6-only socket cannot bind
    // it.
    open.hosts.push_back(local.is_ipv4() ? local.host_text() : numeric_host_of(socket.get()));
  }
  open.sockets.push_back(std::move(socket));
  open.is_passed = true;
  return with_address(std::move(open));
}

Result<OpenPort> adopt_port(const std::vector<int>& sockets, std::vector<std::string> hosts) {
  OpenPort open;
  for (const int socket : sockets) open.sockets.emplace_back(socket);
  if (open.sockets.empty()) return failure("the port has no socket");
  open.hosts = std::move(hosts);
  return with_address(std::move(open));
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  // Keeping the old limit is no reason not to serve. A client that reaches it is reported.
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

int first_descriptor_for_links() {
  rlimit limit{};
  constexpr rlim_t many = std::numeric_limits<int>::max();
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= many) return many;
  return static_cast<int>(limit.rlim_cur - descriptors_for_links());
}

std::size_t descriptors_for_links() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return bounds::link_descriptors_max;
  return std::min<rlim_t>(limit.rlim_cur / bounds::link_descriptors_share,
                          bounds::link_descriptors_max);
}

}  // namespace cpprun
