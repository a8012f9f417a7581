// SPDX-License-Identifier: BSD-3-Clause
// The daemon's secrets: read at startup and again on SIGHUP, all of them or none.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/directory.h"
#include "tests/rendezvous/daemon/cpprund_program.h"

namespace cpprund_secrets_test {

using namespace cpprun;
using integration::Directory;

namespace {

const std::string digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

std::string put(const Directory& directory, const std::string& name, const std::string& text) {
  auto path = directory.write(name, text);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  return path;
}

std::string secret(const std::string& id) {
  return "cpprun1:" + id + ":" + digits + "\n";
}

std::vector<std::string> with(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--host", "127.0.0.1", "--port", "0"});
  return flags;
}

// The next log line that contains `words`; empty if there is none.
std::string line_with(Program& daemon, std::string_view words) {
  while (true) {
    const std::string line = daemon.err_line();
    if (line.empty() || line.find(words) != std::string::npos) return line;
  }
}

}  // namespace

TEST_CASE("SIGHUP reloads the secrets, and a broken file changes none of them") {
  const Directory directory;
  put(directory, "alice", secret("a"));
  put(directory, "alice~", "");
  Program daemon(with({"--secrets", directory.path()}));
  daemon.port();
  CHECK(line_with(daemon, "ignoring").find("/alice~\"") != std::string::npos);
  CHECK(line_with(daemon, "loaded the secrets").ends_with("loaded the secrets of alice"));

  put(directory, "bob", secret("b") + secret("b2"));
  daemon.signal(SIGHUP);
  CHECK(line_with(daemon, "loaded the secrets")
            .ends_with("loaded the secrets of alice, bob (2 secrets)"));

  put(directory, "bob", "not a secret " + digits);
  daemon.signal(SIGHUP);
  const auto line = line_with(daemon, "SIGHUP");
  CHECK(line.find("SIGHUP: keeping the previous secrets: cannot use the secret in \"" +
                  directory.path() + "/bob\": line 1 is not a cpprun secret") != std::string::npos);
  CHECK(line.find(digits) == std::string::npos);

  std::filesystem::remove(directory.path() + "/bob");
  daemon.signal(SIGHUP);
  CHECK(line_with(daemon, "loaded the secrets").ends_with("loaded the secrets of alice"));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a daemon with one owner reloads its secret file") {
  const Directory directory;
  const auto path = put(directory, "key", secret("a"));
  Program daemon(with({"--secret-file", path}));
  daemon.port();
  CHECK(line_with(daemon, "loaded the secrets").ends_with("loaded the secrets of default"));
  put(directory, "key", secret("a") + secret("b"));
  daemon.signal(SIGHUP);
  CHECK(line_with(daemon, "loaded the secrets").ends_with("of default (2 secrets)"));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("the hint about --no-secret appears at startup and not after a failed reload") {
  const Directory directory;
  const std::string own = ".config/cpprun/secret";
  std::filesystem::create_directories(directory.path() + "/.config/cpprun");
  put(directory, own, secret("a"));
  const std::string words =
      "HOME=" + directory.path() + " XDG_CONFIG_HOME= CPPRUN_SECRET_FILE= exec";
  Program daemon(with({}), {.words = words});
  daemon.port();
  CHECK(line_with(daemon, "loaded the secrets").ends_with("loaded the secrets of default"));
  put(directory, own, "not a secret");
  daemon.signal(SIGHUP);
  const auto line = line_with(daemon, "SIGHUP");
  CHECK(line.find("keeping the previous secrets: cannot use the secret in") != std::string::npos);
  CHECK(line.find("--no-secret") == std::string::npos);
  CHECK(daemon.end_with(SIGTERM) == 0);
  Program refused(with({}), {.words = words});
  CHECK(line_with(refused, "cannot use")
            .ends_with("; to serve all clients without a secret, use --no-secret"));
  CHECK(refused.exit_code() == 1);
}

TEST_CASE("a daemon that requires a secret and has none does not start") {
  Program daemon(with({}), {.words = "HOME= XDG_CONFIG_HOME= CPPRUN_SECRET_FILE= "
                                     "CPPRUN_REQUIRE_SECRET=1 exec"});
  CHECK(line_with(daemon, "CPPRUN_REQUIRE_SECRET=1 requires a secret, and this daemon has none") !=
        "");
  CHECK(daemon.exit_code() == 1);
}

TEST_CASE("a daemon without secrets ignores SIGHUP and continues") {
  Program daemon(with({}), {.words = "HOME= XDG_CONFIG_HOME= CPPRUN_SECRET_FILE= exec"});
  daemon.port();
  CHECK(daemon.first_err_line().ends_with(
      "no secret: any client that reaches this port can join jobs and use their stores"));
  daemon.signal(SIGHUP);
  CHECK(line_with(daemon, "SIGHUP")
            .ends_with("SIGHUP: nothing to reload, because this daemon was started without a "
                       "secret; restart it to use one"));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a daemon with invalid secrets does not start") {
  const Directory directory;
  put(directory, "alice", secret("a"));
  put(directory, "bob", secret("a"));
  Program daemon(with({"--secrets", directory.path()}));
  CHECK(line_with(daemon, "alice").find("\"alice\" and \"bob\" have") != std::string::npos);
  CHECK(daemon.exit_code() == 1);
  Program lost(with({"--secret-file", directory.path() + "/gone"}));
  CHECK(line_with(lost, "gone").find("No such file or directory") != std::string::npos);
  CHECK(lost.exit_code() == 1);
}

}  // namespace cpprund_secrets_test
