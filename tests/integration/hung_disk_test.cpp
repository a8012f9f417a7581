// SPDX-License-Identifier: BSD-3-Clause
// A disk that hangs: nobody who writes to it comes back, not even by SIGKILL, until it answers.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/integration/cluster.h"

using namespace cpprun::integration;

namespace {

// A small disk of its own, which can be made to hang. Whatever becomes of this test, it is thawed
// and taken away: a shell waits for our word, or for our end.
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
    janitor_.emplace(Words{"sh", "-c",
                           "trap : TERM; echo ready; tail --pid=" + std::to_string(::getpid()) +
                               " -f /dev/null & wait; kill $! 2>/dev/null; fsfreeze -u " + place +
                               " 2>/dev/null; umount " + place + " 2>/dev/null"});
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
  void freeze() const { CHECK(run({"fsfreeze", "-f", path()}).code == 0); }
  void thaw() const { CHECK(run({"fsfreeze", "-u", path()}).code == 0); }

 private:
  Folder scratch_;
  std::string why_not_;
  std::optional<Command> janitor_;
};

// A disk that answers nobody from the start: a file system whose server never speaks.
class SilentDisk {
 public:
  SilentDisk() : place_(scratch_.path() + "/disk") {
    std::filesystem::create_directory(place_);
    server_ = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    const std::string how =
        "fd=" + std::to_string(server_) + ",rootmode=40000,user_id=0,group_id=0";
    if (server_ >= 0 &&
        ::mount("silent", place_.c_str(), "fuse", MS_NOSUID | MS_NODEV, how.c_str()) == 0) {
      mounted_ = true;
    }
  }
  ~SilentDisk() {
    // Whoever still waits for it hears that it is gone.
    if (server_ >= 0) ::close(server_);
    if (mounted_) ::umount2(place_.c_str(), MNT_DETACH);
  }
  SilentDisk(const SilentDisk&) = delete;
  SilentDisk& operator=(const SilentDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::string& path() const { return place_; }

 private:
  Folder scratch_;
  std::string place_;
  int server_ = -1;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("a failure ends the others though the disk that evidence is looked for on hangs") {
#ifdef __SANITIZE_ADDRESS__
  return skip("a sanitizer waits at its end for a thread that hangs");
#else
  const SilentDisk disk;
  if (!disk.mounted()) return skip("no permission to mount a file system of our own (/dev/fuse)");
  const Folder logs;
  Command job(
      with_cpprun({"--standalone", "--nproc-per-node=2", "--log-dir=" + logs.path(),
                   "--redirects=3", "--no-python", worker(), "hang_if_not", "1", "exit", "4"}),
      {.variables = {{"TMPDIR", disk.path()}}});
  job.expect_err("could not be read within");
  CHECK(job.wait_for_exit() == 4);
  CHECK(contains(job.err(), "exited with code 4"));
  job.expect_no_worker_left();
#endif
}

TEST_CASE("a node whose log disk hangs is lost, its worker ends by the lease, and it comes back") {
  const Cluster cluster(3, "2:3");
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const std::string bell = disk.path() + "/bell";
  REQUIRE(run({"mkfifo", bell}).code == 0);
  Command first(cluster.node(0), cluster.options());
  Command second(cluster.node(1, {"--log-dir=" + disk.path(), "--tee=3"},
                              {worker(), "pid", "seat", "await", bell, "say", "heard", "hang"}),
                 cluster.options());
  Command third(cluster.node(2), cluster.options());
  expect_each({&first, &second, &third}, " of 3, restart 0\n");
  const pid_t worker_of_second = pid_of(second, "1");
  // Opened before, since a fifo on a frozen disk cannot be.
  std::ofstream ringing(bell);
  disk.freeze();
  ringing.close();
  expect_each({&first, &third}, " of 2, restart 0\n");
  first.expect_err("node1 is lost");
  CHECK(ends_in_time(worker_of_second));
  disk.thaw();
  expect_each({&first, &second, &third}, " of 3, restart 0\n", 2);
  second.expect_err("this node asks for a seat again");
  end_all(first, {&second, &third});
  cluster.expect_nothing_left();
}
