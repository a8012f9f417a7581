// SPDX-License-Identifier: BSD-3-Clause
// Secrets as people meet them, with the finished programs: made, rotated, rejected, and kept from
// the workers; and tokens made with them.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace secrets_test {

using namespace cpprun::integration;
namespace fs = std::filesystem;

namespace {

const std::string digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

// An empty home directory.
struct Home {
  Directory directory;

  Options options(Variables more = {}) const {
    more.insert({{"HOME", directory.path()},
                 {"XDG_CONFIG_HOME", ""},
                 {"CPPRUN_SECRET_FILE", ""},
                 {"CPPRUN_REQUIRE_SECRET", ""}});
    return {.variables = std::move(more)};
  }
  std::string secret() const { return directory.path() + "/.config/cpprun/secret"; }
  Words control(const Words& words) const {
    Words all = {from_build("CPPRUNCTL")};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  Ended ask(const Words& words) const { return run(control(words), options()); }
  Ended launch(const Words& words, const Variables& more = {}) const {
    return run(with_cpprun(words), options(more));
  }
};

mode_t mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::string line;
  for (const char byte : Directory::read(path)) {
    if (byte == '\n') {
      lines.push_back(line);
      line.clear();
    } else {
      line += byte;
    }
  }
  CHECK(line.empty());
  return lines;
}

// "cpprun1:ID:KEY"
std::string id_in(const std::string& line) {
  return line.substr(8, line.find(':', 8) - 8);
}

// A disk of one page: the name of a file fits, its content does not.
class TinyDisk {
 public:
  TinyDisk() {
    mounted_ = ::mount("tiny", directory_.path().c_str(), "tmpfs", MS_NOSUID | MS_NODEV,
                       "size=4k,mode=700") == 0;
    if (mounted_) directory_.write("full", std::string(4096, '.'));
  }
  ~TinyDisk() {
    if (mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }
  TinyDisk(const TinyDisk&) = delete;
  TinyDisk& operator=(const TinyDisk&) = delete;
  bool mounted() const { return mounted_; }
  const Directory& directory() const { return directory_; }

 private:
  Directory directory_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("keygen creates a secret at the default path, readable only by its owner") {
  const Home home;
  const auto made = home.ask({"keygen"});
  CHECK(made.err == "");
  REQUIRE(made.code == 0);
  CHECK(mode_of(home.secret()) == 0600);
  CHECK(mode_of(home.directory.path() + "/.config") == 0700);
  CHECK(mode_of(home.directory.path() + "/.config/cpprun") == 0700);
  const auto lines = lines_of(home.secret());
  REQUIRE(lines.size() == 1);
  const std::string id = id_in(lines[0]);
  CHECK(id.size() == 15);
  CHECK(made.out.starts_with("created secret " + id + " in " + home.secret() + "\n"));
  CHECK(contains(made.out, "Every node needs this file"));
  CHECK_FALSE(contains(made.out, lines[0].substr(lines[0].size() - 64)));

  const std::string path = home.directory.path() + "/a/b/secret";
  REQUIRE(home.ask({"keygen", path, "--id", "tonight"}).code == 0);
  CHECK(id_in(lines_of(path).at(0)) == "tonight");
}

TEST_CASE("keygen overwrites nothing, and two at once make one secret") {
  const Home home;
  const std::string path = home.directory.path() + "/secret";
  Command first(home.control({"keygen", path, "--id", "first"}), home.options());
  Command second(home.control({"keygen", path, "--id", "second"}), home.options());
  const auto one = first.wait();
  const auto other = second.wait();
  CHECK(one.code + other.code == 1);
  const auto& lost = one.code == 1 ? one : other;
  CHECK(contains(lost.err, "the file exists; use --add to put"));
  const auto lines = lines_of(path);
  REQUIRE(lines.size() == 1);
  CHECK(id_in(lines[0]) == (one.code == 0 ? "first" : "second"));
  CHECK(home.directory.entries() == std::vector<std::string>{"secret"});

  CHECK(home.ask({"keygen", path}).code == 1);
  CHECK(lines_of(path) == lines);
  // Nor the target of a link.
  fs::create_symlink(home.directory.path() + "/elsewhere", home.directory.path() + "/link");
  CHECK(home.ask({"keygen", home.directory.path() + "/link"}).code == 1);
  CHECK_FALSE(fs::exists(home.directory.path() + "/elsewhere"));
}

TEST_CASE("a secret is rotated: the new one comes first, the old one stays until it is removed") {
  const Home home;
  const std::string path = home.directory.path() + "/secret";
  const auto missing = home.ask({"keygen", path, "--add"});
  CHECK(missing.code == 1);
  CHECK(contains(missing.err, "create it with \"cpprunctl keygen " + path + "\""));
  CHECK(home.directory.entries().empty());
  REQUIRE(home.ask({"keygen", path, "--id", "old"}).code == 0);
  const auto before = lines_of(path);
  const auto added = home.ask({"keygen", path, "--add", "--id", "new"});
  CHECK(added.code == 0);
  CHECK(added.out.starts_with("created secret new in " + path + ", before old\n"));
  const auto after = lines_of(path);
  REQUIRE(after.size() == 2);
  CHECK(id_in(after[0]) == "new");
  CHECK(after[1] == before[0]);
  CHECK(mode_of(path) == 0600);
  CHECK(home.directory.entries() == std::vector<std::string>{"secret"});

  const auto again = home.ask({"keygen", path, "--add", "--id", "old"});
  CHECK(again.code == 1);
  CHECK(contains(again.err, "the file already has a secret \"old\""));
  home.directory.write(".secret.new", "");
  const auto busy = home.ask({"keygen", path, "--add"});
  CHECK(busy.code == 1);
  CHECK(contains(busy.err, home.directory.path() +
                               "/.secret.new exists: another cpprunctl is adding a secret"));
  CHECK(lines_of(path) == after);
}

TEST_CASE("keygen on standard output prints nothing else there") {
  const Home home;
  const auto made = home.ask({"keygen", "-", "--id", "a"});
  CHECK(made.code == 0);
  CHECK(made.out.starts_with("cpprun1:a:"));
  CHECK(made.out.size() == std::string("cpprun1:a:").size() + 64 + 1);
  CHECK(made.err == "cpprunctl: created secret a\n");
  CHECK(home.directory.entries().empty());
  CHECK(home.ask({"keygen", "-"}).out != home.ask({"keygen", "-"}).out);
}

TEST_CASE("a secret that cannot be created leaves nothing behind") {
  const Home home;
  const std::string place = home.directory.path() + "/open";
  fs::create_directory(place);
  REQUIRE(::chmod(place.c_str(), 0777) == 0);
  const auto open = home.ask({"keygen", place + "/secret"});
  CHECK(open.code == 1);
  CHECK(contains(open.err, "its directory is writable by all users (mode 0777); chmod o-w"));
  CHECK(fs::is_empty(place));
  home.directory.write("file", "");
  CHECK(home.ask({"keygen", home.directory.path() + "/file/a/secret"}).code == 1);
  const auto nowhere =
      run(home.control({"keygen"}),
          {.variables = {{"HOME", ""}, {"XDG_CONFIG_HOME", ""}, {"CPPRUN_SECRET_FILE", ""}}});
  CHECK(nowhere.code == 1);
  CHECK(contains(nowhere.err, "use `cpprunctl keygen FILE`"));
  CHECK(home.directory.entries() == std::vector<std::string>{"file", "open"});
}

TEST_CASE("a full disk gets no half-written secret, and an existing one stays as it was") {
  const TinyDisk disk;
  if (!disk.mounted()) return skip("no permission to mount a disk");
  const Home home;
  const auto& directory = disk.directory();
  const auto full = home.ask({"keygen", directory.path() + "/a/b/secret"});
  CHECK(full.code == 1);
  CHECK(contains(full.err, "No space left on device; the incomplete file was removed"));
  CHECK(directory.entries() == std::vector<std::string>{"full"});

  fs::remove(directory.path() + "/full");
  const std::string path = directory.path() + "/secret";
  REQUIRE(home.ask({"keygen", path}).code == 0);
  const auto before = lines_of(path);
  const auto added = home.ask({"keygen", path, "--add"});
  CHECK(added.code == 1);
  CHECK(contains(added.err, "No space left on device; the file is unchanged"));
  CHECK(lines_of(path) == before);
  CHECK(directory.entries() == std::vector<std::string>{"secret"});
}

TEST_CASE("a read-only disk is reported, and no directory is left behind") {
  const TinyDisk disk;
  if (!disk.mounted()) return skip("no permission to mount a disk");
  REQUIRE(::mount("tiny", disk.directory().path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") ==
          0);
  const auto made = Home().ask({"keygen", disk.directory().path() + "/a/secret"});
  CHECK(made.code == 1);
  CHECK(contains(made.err, "Read-only file system"));
}

TEST_CASE("a token is made with the default secret, and nothing else is printed") {
  const Home home;
  const auto none = home.ask({"token", "--read"});
  CHECK(none.code == 1);
  CHECK(contains(none.err, "create one with \"cpprunctl keygen\""));
  REQUIRE(home.ask({"keygen", "--id", "home"}).code == 0);
  const auto own = home.ask({"token", "--read"});
  CHECK(own.err == "");
  CHECK(own.code == 0);
  CHECK(own.out.starts_with("cpprun1.home.read."));
  CHECK(count(own.out, "\n") == 1);
  const std::string path = home.directory.path() + "/other";
  REQUIRE(home.ask({"keygen", path, "--id", "other"}).code == 0);
  const auto named =
      home.ask({"token", "--order", "--for", "2h", "--job", "a", "--secret-file", path});
  CHECK(named.out.starts_with("cpprun1.other.order."));
  CHECK(contains(named.out, ".j61."));
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  const auto open = home.ask({"token", "--read", "--secret-file", path});
  CHECK(open.code == 1);
  CHECK(contains(open.err, "accessible to other users (mode 0644); chmod 600 " + path));
}

TEST_CASE("workers do not get the path of the secret") {
  const Home home;
  const std::string path = home.directory.path() + "/secret";
  REQUIRE(home.ask({"keygen", path}).code == 0);
  const auto launched = home.launch({"--standalone", "--no-python", "env"},
                                    {{"CPPRUN_SECRET_FILE", path}, {"PASSED_ON", "yes"}});
  CHECK(launched.code == 0);
  CHECK(contains(launched.out, "PASSED_ON=yes"));
  CHECK_FALSE(contains(launched.out, "CPPRUN_SECRET_FILE"));
  CHECK_FALSE(contains(launched.out, path));
}

TEST_CASE("a job of several nodes without a secret is rejected if one is required") {
  const Home home;
  const Variables asked = {{"CPPRUN_REQUIRE_SECRET", "1"}};
  const auto refused = home.launch({"--nnodes=2", "--node-rank=0", "--no-python", "true"}, asked);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "CPPRUN_REQUIRE_SECRET=1 requires a secret"));
  CHECK(contains(refused.err, "cpprunctl keygen"));
  CHECK(home.launch({"--standalone", "--no-python", "true"}, asked).code == 0);
  const auto both = home.launch({"--nnodes=2", "--insecure", "--no-python", "true"}, asked);
  CHECK(both.code == 2);
  CHECK(contains(both.err, "use only one of them"));
}

TEST_CASE("a secret that other users can read is rejected, and jobs that do not use it start") {
  const Home home;
  const auto path = home.directory.write("secret", "cpprun1:a:" + digits + "\n");
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  const auto open =
      home.launch({"--nnodes=2", "--node-rank=0", "--secret-file", path, "--no-python", "true"});
  CHECK(open.code == 2);
  CHECK(contains(open.err, "chmod 600 " + path));
  CHECK_FALSE(contains(open.err, digits));
  const auto gone = home.launch({"--nnodes=2", "--no-python", "true"},
                                {{"CPPRUN_SECRET_FILE", home.directory.path() + "/gone"}});
  CHECK(gone.code == 2);
  CHECK(contains(gone.err, "/gone\": No such file or directory"));
  CHECK(home.launch({"--standalone", "--secret-file", path, "--no-python", "true"}).code == 0);
}

}  // namespace secrets_test
