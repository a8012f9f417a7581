// SPDX-License-Identifier: BSD-3-Clause
// What the kernel rejects behind the sandbox. Each check runs in a child, because a process cannot
// leave the sandbox.

#include "rendezvous/daemon/io/service.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/status/io/door.h"

namespace sandbox_io_test {

using namespace cpprun;

namespace {

constexpr int no_landlock = 255;

// The errno of `act` in a process that has entered the sandbox; 0: it succeeds. Skipped below the
// Landlock version `version_min`.
int outcome(const SandboxWants& wants, const std::function<bool()>& act, int version_min = 1) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (enter_sandbox(wants).version < version_min) ::_exit(no_landlock);
    errno = 0;
    ::_exit(act() ? 0 : errno);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// Compares; if the kernel's Landlock is missing or too old it prints a note and returns true.
bool is(int wanted, int got) {
  if (got == no_landlock) {
    std::puts("skipped: this kernel has no Landlock, or an older one");
    return true;
  }
  return got == wanted;
}

struct Directory {
  Directory() {
    std::string name = "/tmp/cpprun-sandbox-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() {
    for (const char* each : {"/in/old", "/in/new", "/file", "/out"}) {
      (void)::unlink((path + each).c_str());
    }
    (void)::rmdir((path + "/in").c_str());
    (void)::rmdir(path.c_str());
  }
  bool has(const std::string& name) const { return ::access((path + name).c_str(), F_OK) == 0; }
  std::string path;
};

bool opens(const std::string& path, int flags) {
  return bool(FileDescriptor(::open(path.c_str(), flags | O_CLOEXEC, 0600)));
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

struct Listener {
  Listener() {
    const auto address = loopback(0);
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(socket.get(), 8) == 0);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) == 0);
    port = ntohs(bound.sin_port);
  }
  bool answers() const {
    const FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = loopback(port);
    return ::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
           0;
  }
  FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;
};

bool binds(std::uint16_t port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = loopback(port);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Like a container's seccomp filter: Landlock calls fail with this error, all others are allowed.
void refuse_landlock(int error_number) {
  constexpr unsigned first = 444;
  constexpr unsigned last = 446;
  const auto refused = SECCOMP_RET_ERRNO | static_cast<unsigned>(error_number);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, refused),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = 5, .filter = filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    ::_exit(no_landlock);
  }
}

}  // namespace

TEST_CASE("if a container blocks Landlock the rest is in force, and the reason is reported") {
  for (const int refusal : {EPERM, ENOSYS}) {
    const pid_t child = ::fork();
    if (child == 0) {
      refuse_landlock(refusal);
      const auto got = enter_sandbox({});
      const bool is_reported = got.version == 0 && got.why_none == errno_text(refusal);
      ::_exit(is_reported && got.no_privileges && opens("/etc/passwd", O_RDONLY) ? 0 : 1);
    }
    REQUIRE(child > 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(is(0, WEXITSTATUS(status)));
  }
}

TEST_CASE("a failure of Landlock is distinguished from a kernel without it") {
  // A process can have at most sixteen layers of rules.
  const auto is_reported = [] {
    SandboxInForce got;
    for (int layer = 0; layer < 16; ++layer) got = enter_sandbox({});
    return got.has_failed && got.version == 0 && got.why_none == errno_text(E2BIG) &&
           got.no_privileges;
  };
  CHECK(is(0, outcome({}, is_reported)));
}

TEST_CASE("a sandboxed process cannot read files that it could read before") {
  REQUIRE(opens("/etc/passwd", O_RDONLY));
  CHECK(is(EACCES, outcome({}, [] { return opens("/etc/passwd", O_RDONLY); })));
  CHECK(is(EACCES, outcome({}, [] { return opens("/proc/self/environ", O_RDONLY); })));
  CHECK(is(EACCES, outcome({}, [] { return opens("/", O_RDONLY | O_DIRECTORY); })));
}

TEST_CASE("a sandboxed process cannot create, truncate, move, remove or execute a file") {
  const Directory directory;
  const auto file = directory.path + "/file";
  const auto out = directory.path + "/out";
  REQUIRE(opens(file, O_WRONLY | O_CREAT));
  CHECK(is(EACCES, outcome({}, [&] { return opens(out, O_WRONLY | O_CREAT); })));
  CHECK(is(EACCES, outcome(
                       {}, [&] { return ::truncate(file.c_str(), 0) == 0; }, 3)));
  CHECK(is(EACCES, outcome({}, [&] { return ::unlink(file.c_str()) == 0; })));
  CHECK(is(EACCES, outcome({}, [&] { return ::rename(file.c_str(), out.c_str()) == 0; })));
  CHECK(is(EACCES, outcome({}, [&] { return ::mkdir(out.c_str(), 0700) == 0; })));
  CHECK(is(EACCES, outcome({}, [&] { return ::symlink("file", out.c_str()) == 0; })));
  CHECK(is(EACCES, outcome({}, [] { return ::execl("/bin/true", "true", nullptr) == 0; })));
  CHECK(directory.has("/file"));
  CHECK_FALSE(directory.has("/out"));
}

TEST_CASE("only the listed paths stay readable") {
  const Directory directory;
  const auto file = directory.path + "/file";
  REQUIRE(opens(file, O_WRONLY | O_CREAT));
  for (const auto& named : {directory.path, file}) {
    CHECK(is(0, outcome({.readable = {named}}, [&] { return opens(file, O_RDONLY); })));
    CHECK(is(EACCES, outcome({.readable = {named}}, [&] { return opens(file, O_WRONLY); })));
    CHECK(
        is(EACCES, outcome({.readable = {named}}, [] { return opens("/etc/passwd", O_RDONLY); })));
  }
  CHECK(is(0, outcome({.readable = {"/no/such/file"}}, [] { return true; })));
}

TEST_CASE("the control socket and its directory can be created and removed, and nothing else") {
  const Directory directory;
  const DoorDirectory door{.parent = directory.path, .name = "in"};
  REQUIRE(make_door_directory(door));
  const auto works = [&] {
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto path = open_door(socket.get(), door, ::getpid());
    if (!path) return false;
    const bool is_found = doors_in(door).size() == 1 && bool(probe_socket(*path).socket);
    remove_door(*path);
    return is_found && !directory.has("/in");
  };
  CHECK(is(0, outcome({.door = door}, works)));
  (void)make_door_directory(door);
  const auto makes_file = [&] { return opens(directory.path + "/in/new", O_WRONLY | O_CREAT); };
  CHECK(is(EACCES, outcome({.door = door}, makes_file)));
  CHECK(is(EACCES, outcome({.door = door},
                           [&] { return opens(directory.path + "/out", O_WRONLY | O_CREAT); })));
}

TEST_CASE("a symbolic link in place of the socket's directory grants no access") {
  const Directory directory;
  REQUIRE(::symlink("/etc", (directory.path + "/out").c_str()) == 0);
  const DoorDirectory door{.parent = directory.path, .name = "out"};
  CHECK(is(EACCES, outcome({.door = door}, [] { return opens("/etc", O_RDONLY | O_DIRECTORY); })));
}

TEST_CASE("a sandboxed process cannot connect over TCP or bind a given port") {
  const Listener listener;
  REQUIRE(listener.answers());
  CHECK(is(EACCES, outcome(
                       {}, [&] { return listener.answers(); }, 4)));
  const std::uint16_t free_port = Listener().port;
  CHECK(is(EACCES, outcome(
                       {}, [&] { return binds(free_port); }, 4)));
  CHECK(is(0, outcome(
                  {}, [] { return binds(0); }, 4)));
}

TEST_CASE("a sandboxed process can signal its children and no process outside") {
  CHECK(is(EPERM, outcome(
                      {}, [] { return ::kill(::getppid(), 0) == 0; }, 6)));
  const auto ends_its_child = [] {
    const pid_t child = ::fork();
    if (child == 0) {
      while (true) ::pause();
    }
    int status = 0;
    return ::kill(child, SIGKILL) == 0 && ::waitpid(child, &status, 0) == child;
  };
  CHECK(is(0, outcome({}, ends_its_child, 6)));
}

TEST_CASE("/dev/null stays open for reserve descriptors") {
  CHECK(is(0, outcome({}, [] { return opens("/dev/null", O_RDWR); })));
  CHECK(is(EACCES, outcome({}, [] { return opens("/dev/zero", O_RDONLY); })));
}

TEST_CASE("a sandboxed process cannot gain privileges, with or without Landlock") {
  const auto is_set = [] { return ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1; };
  CHECK(outcome({}, is_set, 0) == 0);
#ifndef __SANITIZE_ADDRESS__
  CHECK(outcome(
            {}, [] { return ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0; }, 0) == 0);
#endif
}

}  // namespace sandbox_io_test
