// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/meeting_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/text.h"
#include "worker/torch/group/bounds.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;

// Closes its descriptor on every return path.
struct Descriptor {
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number;
};

std::chrono::milliseconds until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

void pause_before_retry(Clock::time_point deadline) {
  // There is no event for a new listener, or for a lock released on another machine.
  const auto pause = std::min(until(deadline), bounds::worker_join_retry);
  static_cast<void>(::poll(nullptr, 0, static_cast<int>(pause.count())));
}

// The greeting of LibTorch's own client: VALIDATE with its magic number, then PING with a text that
// the store must echo.
constexpr std::string_view greeting("\x00\xCE\xF7\x85\x3C\x0Dping", 10);
constexpr std::string_view answer_wanted = greeting.substr(6);

// Empty if a store answers, else the reason. A port may be open without an application behind it,
// or with another one, and LibTorch's client would wait forever for the first answer.
std::string greet(int socket, Clock::time_point deadline) {
  if (::send(socket, greeting.data(), greeting.size(), MSG_NOSIGNAL) < 0) return errno_text(errno);
  std::string answer;
  while (answer.size() < answer_wanted.size()) {
    pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(until(deadline).count())) == 0) {
      return "the port accepts connections, but no store responds";
    }
    std::array<char, answer_wanted.size()> bytes;
    const auto got = ::recv(socket, bytes.data(), bytes.size() - answer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return errno_text(errno);
    if (got == 0) return "the connection was closed without a response";
    answer.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return answer == answer_wanted ? "" : "the port is used by a program that is not a store";
}

// Empty if a store answers at that address, else the reason.
std::string try_to_reach(const addrinfo& where, Clock::time_point deadline) {
  const Descriptor probe(
      ::socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, where.ai_protocol));
  if (probe.number < 0) return errno_text(errno);
  if (::connect(probe.number, where.ai_addr, where.ai_addrlen) == 0) {
    return greet(probe.number, deadline);
  }
  if (errno != EINPROGRESS) return errno_text(errno);
  pollfd waiting{.fd = probe.number, .events = POLLOUT, .revents = 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(until(deadline).count()));
  if (ready == 0) return errno_text(ETIMEDOUT);
  int error = 0;
  socklen_t size = sizeof error;
  const bool known =
      ready > 0 && ::getsockopt(probe.number, SOL_SOCKET, SO_ERROR, &error, &size) == 0;
  if (!known) return errno_text(errno);
  return error == 0 ? greet(probe.number, deadline) : errno_text(error);
}

// LibTorch's client retries at random intervals and exceeds its timeout by half. Once there is a
// listener, it connects at once.
void wait_for_listener(const MeetingPoint& store, Clock::time_point deadline) {
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(nullptr, &::freeaddrinfo);
  std::vector<const addrinfo*> found;
  const auto resolve = [&]() -> Result<std::size_t> {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    const int unresolved =
        ::getaddrinfo(store.address.c_str(), std::to_string(store.port).c_str(), &wanted, &first);
    owned.reset(first);
    found.clear();
    if (unresolved != 0) return failure(::gai_strerror(unresolved));
    for (const auto* each = first; each != nullptr; each = each->ai_next) found.push_back(each);
    return found.size();
  };
  const auto reach = [&](std::size_t address, TimePoint end) {
    return try_to_reach(*found.at(address), end);
  };
  const auto why = search_listener(
      {.now = Clock::now, .resolve = resolve, .reach = reach, .pause = pause_before_retry},
      deadline);
  if (!why.empty()) throw std::runtime_error(why);
}

c10::intrusive_ptr<c10d::Store> open_tcp(const Placement& placement,
                                         std::chrono::milliseconds timeout) {
  const Context& context = placement.context;
  const auto deadline = Clock::now() + timeout;
  if (!serves_store(placement)) wait_for_listener(context.store, deadline);
  c10d::TCPStoreOptions options;
  options.port = context.store.port;
  options.isServer = serves_store(placement);
  options.multiTenant = options.isServer;
  // A Python rank that serves the store waits until every rank has checked in. A C++ rank does not:
  // it detects missing ranks later, by number.
  options.numWorkers = static_cast<std::size_t>(context.world_size);
  options.waitWorkers = !options.isServer;
  options.timeout = until(deadline);
  options.useLibUV = context.store.use_libuv;
  try {
    return c10::make_intrusive<c10d::TCPStore>(context.store.address, options);
  } catch (const std::exception& error) {
    // Some builds of LibTorch lack libuv. The older server speaks the same protocol.
    if (!options.useLibUV || std::string(error.what()).find("libuv") == std::string::npos) throw;
    options.useLibUV = false;
    return c10::make_intrusive<c10d::TCPStore>(context.store.address, options);
  }
}

// LibTorch reads any file as a store and retries forever if it is invalid. Returns why this file is
// invalid, or nothing; empties a file left over from a finished group.
std::optional<std::string> why_no_store(const std::string& path, int ranks,
                                        Clock::time_point deadline) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return std::nullopt;
  if (!std::filesystem::is_regular_file(status)) return "not a regular file";
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.number < 0) return errno_text(errno);
  // Writers hold the lock, so records read under it are complete.
  while (::flock(file.number, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_text(errno);
    if (Clock::now() >= deadline) return "another process holds its lock";
    pause_before_retry(deadline);
  }
  const auto read_at = [&file](std::uint64_t at, void* to, std::size_t count) {
    return ::pread(file.number, to, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count);
  };
  struct stat now {};
  if (::fstat(file.number, &now) != 0) return errno_text(errno);
  const auto size = static_cast<std::uint64_t>(now.st_size);
  if (auto fault = store_file_fault(size, read_at)) return fault;
  // Emptied, not removed: another rank may already have it open and wait for the lock.
  const bool is_left = size > 0 && is_left_behind(size, read_at, ranks);
  if (is_left && ::ftruncate(file.number, 0) != 0) return errno_text(errno);
  return std::nullopt;
}

c10::intrusive_ptr<c10d::Store> open_file(const Placement& placement,
                                          std::chrono::milliseconds timeout) {
  // LibTorch would wait five minutes for the directory to appear.
  const std::filesystem::path directory = std::filesystem::path(placement.file).parent_path();
  if (!std::filesystem::is_directory(directory)) {
    throw std::runtime_error("directory " + directory.string() + " does not exist");
  }
  if (const auto fault =
          why_no_store(placement.file, placement.context.world_size, Clock::now() + timeout)) {
    throw std::runtime_error("the file exists, but is not a store: " + *fault +
                             "; use a path that does not exist yet");
  }
  auto store = c10::make_intrusive<c10d::FileStore>(placement.file, placement.context.world_size);
  store->setTimeout(timeout);
  return store;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_meeting_store(const Placement& placement,
                                                   std::chrono::milliseconds timeout) {
  switch (placement.meeting) {
    case Meeting::tcp:
      return open_tcp(placement, timeout);
    case Meeting::file:
      return open_file(placement, timeout);
    case Meeting::alone:
    case Meeting::given:
      break;
  }
  return c10::make_intrusive<c10d::HashStore>();
}

namespace {

// LibTorch's counters: ranks that opened the file, and ranks that closed it.
constexpr std::string_view users_key = "refcount/";
constexpr std::string_view former_users_key = "cleanup/";
constexpr std::size_t own_key_bytes_max = 32;

bool is_key(std::string_view beginning, std::uint32_t length) {
  if (length == 0) return false;
  if (beginning.front() == '/' || beginning.front() == '-') return true;
  return length == beginning.size() &&
         beginning.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == beginning.size() - 1 &&
         beginning.back() == '/';
}

// Calls `visit` with the beginning of each key and of its value. Returns why a record is invalid.
template <class Visit>
std::optional<std::string> walk(std::uint64_t size, const ReadAt& read_at, Visit&& visit) {
  std::string key;
  bool is_value = false;
  for (std::uint64_t at = 0; at < size || is_value; is_value = !is_value) {
    std::uint32_t length = 0;
    if (size - at < sizeof length || !read_at(at, &length, sizeof length) ||
        size - at - sizeof length < length) {
      return fmt::format("the record at byte {} is truncated or invalid", at);
    }
    std::string beginning(std::min<std::size_t>(length, own_key_bytes_max), '\0');
    const bool is_read = read_at(at + sizeof length, beginning.data(), beginning.size());
    if (!is_value && (!is_read || !is_key(beginning, length))) {
      return fmt::format("the record at byte {} has no key", at);
    }
    if (is_value) visit(key, beginning);
    if (!is_value) key = std::move(beginning);
    at += sizeof length + length;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> store_file_fault(std::uint64_t size, const ReadAt& read_at) {
  return walk(size, read_at, [](std::string_view, std::string_view) {});
}

bool is_left_behind(std::uint64_t size, const ReadAt& read_at, int ranks) {
  int users = 0;
  int former_users = 0;
  const auto fault = walk(size, read_at, [&](std::string_view key, std::string_view value) {
    if (key == users_key) users = exact_number<int>(value).value_or(1);
    if (key == former_users_key) former_users = exact_number<int>(value).value_or(0);
  });
  return !fault && users == 0 && former_users >= ranks;
}

namespace {

// Enough for a store on this machine or a nearby one to answer.
constexpr Duration attempt_min = std::chrono::milliseconds(1);

}  // namespace

std::string search_listener(const ListenerSearch& search, TimePoint deadline) {
  std::string why;
  while (true) {
    const auto addresses = search.resolve();
    if (!addresses) why = addresses.error().reason;
    for (std::size_t each = 0; addresses && each < *addresses; ++each) {
      // Every address must get a turn: an address that drops packets takes at most half of the
      // remaining time.
      const TimePoint now = search.now();
      why = search.reach(each, now + std::max<Duration>((deadline - now) / 2, attempt_min));
      if (why.empty()) return why;
    }
    if (search.now() >= deadline) return why;
    search.pause(deadline);
  }
}

}  // namespace cpprun
