// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Disks that hang: no writer returns, not even on SIGKILL, until they respond.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace cpprun::integration {

// A small disk of its own that can hang. Whatever becomes of this test, the disk is thawed and
// removed: a shell waits for our signal, or for our end.
class FreezingDisk {
 public:
  FreezingDisk() {
    const std::string image = "'" + scratch_.path() + "/image'";
    const std::string place = "'" + path() + "'";
    const auto made = run({"sh", "-c",
                           "mkdir " + place + " && truncate -s 8M " + image +
                               " && mkfs.ext4 -q -F " + image + " && mount -o loop " + image + " " +
                               place + " && fsfreeze -f " + place + " && fsfreeze -u " + place});
    if (made.code != 0) why_not_ = "no permission to mount a disk and freeze it: " + made.err;
    // SIGTERM may come before the shell waits, so it kills the process that is waited for.
    janitor_.emplace(
        Words{"sh", "-c",
              "tail --pid=" + std::to_string(::getpid()) +
                  " -f /dev/null & trap \"kill $! 2>/dev/null\" TERM; echo ready; wait; "
                  "fsfreeze -u " +
                  place + " 2>/dev/null; umount " + place + " 2>/dev/null"});
    janitor_->expect_out("ready");
  }
  ~FreezingDisk() {
    janitor_->signal(SIGTERM);
    janitor_->wait_for_exit();
  }
  FreezingDisk(const FreezingDisk&) = delete;
  FreezingDisk& operator=(const FreezingDisk&) = delete;

  const std::string& why_not() const { return why_not_; }
  std::string path() const { return scratch_.path() + "/disk"; }
  // The directories of jobs without --log-dir. The lasting one has a socket beside it.
  Words job_directories() const {
    Words names;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("cpprun_")) names.push_back(name);
    }
    return names;
  }
  void freeze() const { CHECK(run({"fsfreeze", "-f", path()}).code == 0); }
  void thaw() const { CHECK(run({"fsfreeze", "-u", path()}).code == 0); }
  // It hangs as long as this object lives.
  struct Frozen {
    explicit Frozen(const FreezingDisk& its) : disk(its) { disk.freeze(); }
    ~Frozen() { disk.thaw(); }
    Frozen(const Frozen&) = delete;
    Frozen& operator=(const Frozen&) = delete;
    const FreezingDisk& disk;
  };

 private:
  Directory scratch_;
  std::string why_not_;
  std::optional<Command> janitor_;
};

// A disk that never responds: a file system whose server never answers. A client can be killed
// unless the server has answered once; then requests are accepted, and a client hangs in the kernel
// until the server is gone.
class SilentDisk {
 public:
  enum class Speaks { never, once };

  explicit SilentDisk(Speaks speaks = Speaks::never) : place_(scratch_.path() + "/disk") {
    std::filesystem::create_directory(place_);
    server_ = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    const std::string how =
        "fd=" + std::to_string(server_) + ",rootmode=40000,user_id=0,group_id=0";
    if (server_ >= 0 &&
        ::mount("silent", place_.c_str(), "fuse", MS_NOSUID | MS_NODEV, how.c_str()) == 0) {
      mounted_ = true;
    }
    if (mounted_ && speaks == Speaks::once) listener_ = std::thread([this] { speak_once(); });
  }
  ~SilentDisk() {
    if (listener_.joinable()) {
      // Closing the connection ends the listener and every request.
      ::umount2(place_.c_str(), MNT_FORCE);
      listener_.join();
    }
    // Waiting clients get an error.
    if (server_ >= 0) ::close(server_);
    if (mounted_) ::umount2(place_.c_str(), MNT_DETACH);
  }
  SilentDisk(const SilentDisk&) = delete;
  SilentDisk& operator=(const SilentDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::string& path() const { return place_; }

 private:
  void speak_once() const {
    std::vector<char> question(fuse_question_bytes);
    while (::read(server_, question.data(), question.size()) > 0) {
      const auto& asked = *reinterpret_cast<const fuse_in_header*>(question.data());
      if (asked.opcode != FUSE_INIT) continue;
      const auto& version = *reinterpret_cast<const fuse_init_in*>(question.data() + sizeof asked);
      struct {
        fuse_out_header head{};
        fuse_init_out body{};
      } answer;
      answer.head.len = sizeof answer;
      answer.head.unique = asked.unique;
      answer.body.major = version.major;
      answer.body.minor = version.minor;
      answer.body.max_write = 4096;
      static_cast<void>(::write(server_, &answer, sizeof answer));
    }
  }

  static constexpr std::size_t fuse_question_bytes = 256 * 1024;
  std::thread listener_;
  Directory scratch_;
  std::string place_;
  int server_ = -1;
  bool mounted_ = false;
};

}  // namespace cpprun::integration
