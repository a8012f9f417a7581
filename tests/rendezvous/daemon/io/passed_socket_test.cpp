// SPDX-License-Identifier: BSD-3-Clause
// Checks descriptor 3 in a child process.

#include "rendezvous/daemon/io/service.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "rendezvous/io/file_descriptor.h"

namespace passed_socket_test {

using namespace cpprun;

namespace {

// The rejection of `descriptor` as number 3; empty: it is accepted, close-on-exec and non-blocking.
std::string said_of(int descriptor, int count = 1) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const FileDescriptor reader(::fcntl(ends[0], F_DUPFD_CLOEXEC, 50));
  FileDescriptor writer(::fcntl(ends[1], F_DUPFD_CLOEXEC, 50));
  ::close(ends[0]);
  ::close(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    if (descriptor < 0) {
      ::close(3);
    } else if (descriptor != 3) {
      ::dup2(descriptor, 3);
    }
    ::close(4);
    const auto taken = take_passed_socket({.count = count, .remark = {}});
    std::string text = taken ? "" : taken.error().reason;
    if (taken && count > 0 &&
        (::fcntl(3, F_GETFD) != FD_CLOEXEC || (::fcntl(3, F_GETFL) & O_NONBLOCK) == 0)) {
      text = "its flags are wrong";
    }
    if (taken && bool(*taken) != (count > 0)) text = "it is not taken";
    (void)!::write(writer.get(), text.data(), text.size());
    ::_exit(0);
  }
  REQUIRE(child > 0);
  writer.reset();
  std::array<char, 4096> text;
  const auto size = ::read(reader.get(), text.data(), text.size());
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  return {text.data(), static_cast<std::size_t>(size < 0 ? 0 : size)};
}

FileDescriptor bound(int family, int type, bool listens) {
  FileDescriptor socket(::socket(family, type | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  if (family == AF_INET) REQUIRE(::bind(socket.get(), name, sizeof address) == 0);
  if (listens) REQUIRE(::listen(socket.get(), 8) == 0);
  return socket;
}

bool says(const std::string& text, const std::string& words) {
  if (text.find(words) != std::string::npos) return true;
  MESSAGE("it says: " << text);
  return false;
}

}  // namespace

TEST_CASE("a listening TCP socket is accepted") {
  const auto socket = bound(AF_INET, SOCK_STREAM, true);
  CHECK(said_of(socket.get()) == "");
}

TEST_CASE("no descriptor is checked if none was passed") {
  const auto socket = bound(AF_INET, SOCK_DGRAM, false);
  CHECK(said_of(socket.get(), 0) == "");
}

TEST_CASE("any other descriptor is rejected by its type") {
  CHECK(says(said_of(bound(AF_INET, SOCK_STREAM, false).get()),
             "descriptor 3 is a TCP socket that does not listen on 127.0.0.1:"));
  CHECK(says(said_of(bound(AF_INET, SOCK_DGRAM, false).get()),
             "descriptor 3 is a UDP socket on 127.0.0.1:"));
  CHECK(says(said_of(bound(AF_UNIX, SOCK_STREAM, false).get()), "3 is a Unix socket;"));
  CHECK(says(said_of(bound(AF_UNIX, SOCK_DGRAM, false).get()), "3 is a Unix socket;"));
  CHECK(says(said_of(bound(AF_NETLINK, SOCK_RAW, false).get()), "a socket of another protocol;"));
  CHECK(says(said_of(FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)).get()),
             "descriptor 3 is not a socket;"));
  CHECK(says(said_of(-1), "descriptor 3 is not open;"));
}

TEST_CASE("a rejection of several sockets names the first few") {
  const auto socket = bound(AF_INET, SOCK_STREAM, true);
  CHECK(says(said_of(socket.get(), 2),
             "cannot serve on 2 passed sockets (descriptor 3 is a "
             "listening TCP socket on 127.0.0.1:"));
  CHECK(says(said_of(socket.get(), 2), "descriptor 4 is not open): cpprund needs exactly one;"));
  CHECK(says(said_of(socket.get(), 999999), ", ...): cpprund needs exactly one;"));
}

}  // namespace passed_socket_test
