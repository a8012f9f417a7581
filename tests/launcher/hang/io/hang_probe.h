// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the tests of observed workers share: a directory, and child processes that end with them.

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "tests/launcher/io_probe.h"

namespace cpprun::probe {

struct PrivateDirectory {
  PrivateDirectory() {
    std::string name = "/tmp/cpprun_hang_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~PrivateDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;

  std::string file(std::string_view name, std::string_view text, int mode = 0600) const {
    const auto full = path + "/" + std::string(name);
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
    std::filesystem::permissions(full, static_cast<std::filesystem::perms>(mode));
    return full;
  }

  std::string path;
};

// Runs `body` in a child. The constructor returns when that has called `ready`.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<void(const std::function<void()>& ready)>& body) {
    Pipe ready;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      body([&] {
        if (::write(ready.in(), "\n", 1) != 1) std::abort();
      });
      ::_exit(0);
    }
    ready.close_in();
    ready.read_line();
  }
  ~ChildProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }

 private:
  int pid_ = 0;
};

// The server of a worker: calls `answer` for each client.
inline void serve(const std::string& path, const std::function<void()>& ready,
                  const std::function<void(int client)>& answer, int queue_length = 16) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(listener, plain, sizeof address) != 0 || ::listen(listener, queue_length) != 0)
    std::abort();
  ready();
  while (true) {
    const int client = ::accept(listener, nullptr, nullptr);
    char request[4096];
    if (::recv(client, request, sizeof request, 0) > 0) answer(client);
    ::close(client);
  }
}

inline void say(int client, std::string_view text) {
  static_cast<void>(::send(client, text.data(), text.size(), MSG_NOSIGNAL));
}

}  // namespace cpprun::probe
