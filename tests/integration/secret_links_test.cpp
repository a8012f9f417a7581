// SPDX-License-Identifier: BSD-3-Clause
// Jobs whose nodes hold a secret, and nodes that hold none: on hosts of their own, with all traffic
// between them captured.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/hosts.h"
#include "tests/integration/sockets.h"

namespace secret_links_test {

using namespace cpprun::integration;

namespace {

const std::string blue =
    "cpprun1:blue:5f6c1d0e9b8a7c6d5e4f30211203f4e5d6c7b8a99a8b7c6d5e4f302112031a2b\n";
const std::string red =
    "cpprun1:red:112233445566778899aabbccddeeff00112233445566778899aabbccddeeff01\n";
const std::string other_blue =
    "cpprun1:blue:112233445566778899aabbccddeeff00112233445566778899aabbccddeeff01\n";

// A secret of that name, with a key of its own.
std::string secret_of(const std::string& id) {
  std::string key(64, '0');
  for (std::size_t at = 0; at < key.size(); ++at) {
    key[at] = "0123456789abcdef"[(static_cast<unsigned char>(id[at % id.size()]) + at) % 16];
  }
  return "cpprun1:" + id + ":" + key + "\n";
}

class SecretFile {
 public:
  explicit SecretFile(const std::string& text) : path_(directory_.write("secret", text)) {
    REQUIRE(::chmod(path_.c_str(), 0600) == 0);
  }
  Options options() const { return {.variables = {{"CPPRUN_SECRET_FILE", path_}}}; }
  void give_to(uid_t user) const {
    REQUIRE(::chown(directory_.path().c_str(), user, user) == 0);
    REQUIRE(::chown(path_.c_str(), user, user) == 0);
  }

 private:
  Directory directory_;
  std::string path_;
};

constexpr uid_t other_uid = 65534;

Words as_other_user(const Words& words) {
  Words all = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Words node(int rank, const std::string& script, const Words& flags = {}) {
  Words words = {"--nnodes=2",
                 "--nproc_per_node=1",
                 "--node_rank=" + std::to_string(rank),
                 "--master_addr=" + Hosts::address(0),
                 "--master_port=29500",
                 "--rdzv-id=a-secret-name"};
  words.insert(words.end(), flags.begin(), flags.end());
  for (const char* word : {"--no-python", "sh", "-c"}) words.emplace_back(word);
  words.push_back(script);
  return with_cpprun(words);
}

std::string bytes_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool can_capture() {
  return run({"sh", "-c", "command -v tcpdump"}).code == 0;
}

}  // namespace

TEST_CASE("nodes that hold the secret run and restart a job, and the wire reveals nothing of it") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  const SecretFile secret(blue);
  const Directory directory;
  const std::string capture = directory.path() + "/wire.pcap";
  std::optional<Command> tcpdump;
  if (can_capture()) {
    tcpdump.emplace(hosts.on(
        0, {"tcpdump", "-U", "--immediate-mode", "-i", Hosts::fabric, "-w", capture, "tcp"}));
    tcpdump->expect_err("listening on");
  }
  const std::string fails_once =
      "echo restart $TORCHELASTIC_RESTART_COUNT; "
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3";
  Command second(hosts.on(1, node(1, fails_once, {"--max-restarts=1"})), secret.options());
  Command first(hosts.on(0, node(0, fails_once, {"--max-restarts=1"})), secret.options());
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  CHECK(contains(of_first.out, "restart 1\n"));
  CHECK(contains(of_second.out, "restart 1\n"));
  if (tcpdump) {
    tcpdump->signal(SIGINT);
    tcpdump->wait();
  }
  hosts.expect_nothing_left();
  if (!tcpdump) return skip("tcpdump is not installed: what passed was not looked at");
  const std::string wire = bytes_of(capture);
  CHECK(wire.size() > 2000);              // two nodes, two rounds
  CHECK(contains(wire, "cpprun1:blue"));  // the secret's name, as intended
  for (const char* word : {"a-secret-name", "node1", "\"say\"", "heartbeat", "5f6c1d0e", "join"}) {
    CHECK_FALSE(contains(wire, word));
  }
}

TEST_CASE(
    "a node without the secret is rejected at once with a hint, and the job is not affected") {
  const Hosts hosts(3);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  const SecretFile secret(blue);
  Command second(hosts.on(1, node(1, "echo here; sleep 60")), secret.options());
  Command first(hosts.on(0, node(0, "echo here; sleep 60")), secret.options());
  first.expect_out("here\n");
  second.expect_out("here\n");
  const auto unidentified = run(hosts.on(2, node(1, "echo stolen")));
  CHECK(unidentified.code == 1);
  CHECK(unidentified.out == "");
  CHECK(contains(unidentified.err, "this master requires a secret"));
  first.expect_err("the client has no secret, but the server requires one");
  for (Command* each : {&first, &second}) each->signal(SIGTERM);
  CHECK(first.wait().code == 128 + SIGTERM);
  CHECK(second.wait().code == 128 + SIGTERM);
  CHECK(first.out() == "here\n");  // no round restarted
  CHECK(second.out() == "here\n");
}

TEST_CASE("both sides report whose secret is wrong, and how") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  struct Case {
    std::string first;
    std::string second;
    const char* seen_by_first;
    const char* seen_by_second;
  };
  const Case diagnostics[] = {
      {blue, red, "wrong secret: the client has \"red\", and the server has \"blue\"",
       "wrong secret: the server has no secret with the id \"red\""},
      {blue, other_blue, "wrong secret: both sides have the id \"blue\", but with different keys",
       "wrong secret: both sides have the id \"blue\", but with different keys"},
      {"", blue, "the client uses a secret, but the server has none",
       "the client uses secret \"blue\", but the server has none"},
  };
  for (const auto& [of_first, of_second, seen_by_first, seen_by_second] : diagnostics) {
    CAPTURE(seen_by_first);
    std::optional<SecretFile> held;
    if (!of_first.empty()) held.emplace(of_first);
    const SecretFile other(of_second);
    Command first(hosts.on(0, node(0, "echo here")), held ? held->options() : Options{});
    Command second(hosts.on(1, node(1, "echo here")), other.options());
    first.expect_err(seen_by_first);
    second.expect_err(seen_by_second);
    for (Command* each : {&first, &second}) each->signal(SIGTERM);
    CHECK(first.wait().out == "");
    CHECK(second.wait().out == "");
  }
}

TEST_CASE("during the rotation of a secret, nodes with either meet") {
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  const SecretFile old_one(blue);
  const SecretFile both(red + blue);
  Command second(hosts.on(1, node(1, "echo here")), old_one.options());
  Command first(hosts.on(0, node(0, "echo here")), both.options());
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
}

TEST_CASE("no worker gets the secret") {
  const SecretFile secret(blue);
  const auto ended = run(with_cpprun({"--standalone", "--no-python", "sh", "-c",
                                      "env; cat /proc/self/environ; ls -l /proc/self/fd"}),
                         secret.options());
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "WORLD_SIZE=1"));
  CHECK_FALSE(contains(ended.out, "CPPRUN_SECRET_FILE"));
  CHECK_FALSE(contains(ended.out, "/secret"));
}

TEST_CASE("its own user can read neither the memory nor the core of a cpprun that holds a secret") {
  if (::geteuid() != 0) return skip("only root can act as another user");
  const SecretFile secret(blue);
  secret.give_to(other_uid);
  // A root without /proc, a /tmp or a clone that only root can enter, no setpriv.
  for (const Words& needed :
       {Words{from_build("CPPRUN"), "--version"}, Words{"test", "-x", worker()},
        Words{"cat", secret.options().variables.at("CPPRUN_SECRET_FILE")},
        Words{"cat", "/proc/self/status"}}) {
    const auto tried = run(as_other_user(needed));
    if (tried.code != 0) {
      return skip("another user cannot run " + needed[0] + " " + needed[1] + ": " + tried.err);
    }
  }
  Options without = secret.options();
  without.variables = {{"CPPRUN_SECRET_FILE", ""}, {"HOME", ""}, {"XDG_CONFIG_HOME", ""}};
  for (const bool holds : {true, false}) {
    CAPTURE(holds);
    Command job(
        as_other_user(with_cpprun({"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-id=held",
                                   "--rdzv-endpoint=127.0.0.1:" + std::to_string(free_port()),
                                   "--rdzv-conf=last_call_timeout=0.1", "--no-python", worker(),
                                   "say", "up", "hang"})),
        holds ? secret.options() : without);
    job.expect_out("up\n");
    // The kernel gives root what is not dumpable, and what no debugger may attach to.
    struct stat memory {};
    REQUIRE(::stat(("/proc/" + std::to_string(job.pid()) + "/mem").c_str(), &memory) == 0);
    CHECK(memory.st_uid == (holds ? 0 : other_uid));
    job.signal(SIGTERM);
    CHECK(job.wait().code == 128 + SIGTERM);
  }
}

TEST_CASE("owners at one daemon neither join nor see each other's jobs, and admin sees all") {
  const Directory directory;
  const std::string owners = directory.path() + "/owners";
  REQUIRE(::mkdir(owners.c_str(), 0700) == 0);
  const auto path_of = [&](const std::string& owner) { return owners + "/" + owner; };
  for (const std::string owner : {"admin", "alice", "bob"}) {
    std::ofstream(path_of(owner)) << secret_of(owner);
    REQUIRE(::chmod(path_of(owner).c_str(), 0600) == 0);
  }
  Command daemon({from_build("CPPRUND"), "--host=127.0.0.1", "--port=0", "--secrets=" + owners});
  daemon.expect_out("\n");
  const std::string port = daemon.out().substr(daemon.out().rfind(':') + 1);
  const std::string address = "127.0.0.1:" + port.substr(0, port.find('\n'));
  const auto holding = [&](const std::string& owner) {
    return Options{.variables = {{"CPPRUN_SECRET_FILE", path_of(owner)}}};
  };
  const auto job = [&](const std::string& script) {
    return with_cpprun({"--nnodes=1", "--rdzv-backend=c10d", "--rdzv-endpoint=" + address,
                        "--rdzv-id=train", "--no-python", "sh", "-c", script});
  };
  const auto ask = [&](const std::string& owner, Words words) {
    words.insert(words.begin(), {from_build("CPPRUNCTL"), "--address=" + address});
    return run(words, holding(owner));
  };
  Command running(job("echo here; sleep 60"), holding("alice"));
  running.expect_out("here\n");

  const auto taken = run(job("echo stolen"), holding("bob"));
  CHECK(taken.code == 1);
  CHECK(contains(taken.err, "job id \"train\" belongs to another user"));
  CHECK(contains(ask("alice", {"ls"}).out, "train"));
  CHECK(contains(ask("admin", {"ls"}).out, "train"));
  CHECK_FALSE(contains(ask("bob", {"ls"}).out, "train"));
  CHECK(ask("bob", {"status", "train"}).code != 0);
  CHECK(ask("bob", {"stop", "train"}).code != 0);
  const SecretFile unknown(secret_of("mallory"));
  const auto unidentified =
      run({from_build("CPPRUNCTL"), "--address=" + address, "ls"}, unknown.options());
  CHECK(unidentified.code != 0);
  CHECK(
      contains(unidentified.err, "wrong secret: the server has no secret with the id \"mallory\""));
  CHECK_FALSE(contains(running.err(), "stop"));

  Command waits({from_build("CPPRUNCTL"), "--address=" + address, "wait", "train"},
                holding("alice"));
  waits.expect_err("waiting for job \"train\" to end");
  const auto stopped = ask("alice", {"stop", "train", "--reason=enough"});
  CHECK_MESSAGE(stopped.code == 0, stopped.err);
  const auto ended = running.wait();
  CHECK(contains(ended.err, "enough"));
  CHECK(contains(ended.err, "with the secret \"alice\""));
  CHECK_MESSAGE(waits.wait().code == ended.code, waits.err());

  // Without bob's file his secret is invalid from the next SIGHUP on.
  REQUIRE(::unlink(path_of("bob").c_str()) == 0);
  daemon.signal(SIGHUP);
  daemon.expect_err("loaded the secrets of", 2);
  const SecretFile bobs(secret_of("bob"));
  CHECK(run({from_build("CPPRUNCTL"), "--address=" + address, "ls"}, bobs.options()).code != 0);
  CHECK(ask("alice", {"ls"}).code == 0);
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
}

TEST_CASE("a token grants read access until it expires, and no control access") {
  const SecretFile secret(blue);
  const auto options = secret.options();
  Command daemon({from_build("CPPRUND"), "--host=127.0.0.1", "--port=0", "--status-access=user",
                  "--secret-file=" + options.variables.at("CPPRUN_SECRET_FILE")});
  daemon.expect_out("\n");
  const std::string port = daemon.out().substr(daemon.out().rfind(':') + 1);
  const auto ask = [&](const std::string& token, const std::string& host = "localhost") {
    const auto socket = speak(std::stoi(port),
                              "GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n" +
                                  (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") +
                                  "Connection: close\r\n\r\n");
    return heard_from(socket);
  };
  const auto made = run({from_build("CPPRUNCTL"), "token", "--read", "--for=1h"}, options);
  REQUIRE_MESSAGE(made.code == 0, made.err);
  const std::string token = made.out.substr(0, made.out.find('\n'));
  CHECK(contains(ask(token), "HTTP/1.1 200"));
  CHECK(contains(ask(token), "cpprun_jobs"));
  // A page that rebinds its name to this address has no token to show.
  CHECK(contains(ask(token, "head.of.a.proxy"), "HTTP/1.1 200"));
  CHECK_FALSE(contains(ask("", "head.of.a.proxy"), "HTTP/1.1 200"));
  std::string damaged = token;
  damaged.back() = damaged.back() == '0' ? '1' : '0';
  CHECK(contains(ask(damaged), "HTTP/1.1 401"));
  CHECK(contains(ask("nonsense"), "HTTP/1.1 401"));
  // A client without a proof has no store either: it is closed unanswered.
  const std::string hello("\0\316\367\205\074\015\007\000\000\000", 10);
  CHECK(heard_from(speak(std::stoi(port), hello)).empty());
  daemon.expect_err("this daemon requires a secret");
  daemon.expect_err("no access to /metrics");
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
}

TEST_CASE("a daemon in its sandbox finds a secret in a directory that was replaced by another") {
  // As Kubernetes mounts them: "..data" is a link whose target is replaced.
  const Directory directory;
  const auto version = [&](const std::string& name, const std::string& owner) {
    REQUIRE(::mkdir((directory.path() + "/" + name).c_str(), 0700) == 0);
    const std::string path = directory.write(name + "/secret", secret_of(owner));
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    return Options{.variables = {{"CPPRUN_SECRET_FILE", path}}};
  };
  const auto before = version("..v1", "one");
  const auto after = version("..v2", "two");
  const std::string link = directory.path() + "/..data";
  REQUIRE(::symlink("..v1", link.c_str()) == 0);
  Command daemon(
      {from_build("CPPRUND"), "--host=127.0.0.1", "--port=0", "--secret-file=" + link + "/secret"});
  daemon.expect_out("\n");
  REQUIRE(::symlink("..v2", (link + ".new").c_str()) == 0);
  REQUIRE(::rename((link + ".new").c_str(), link.c_str()) == 0);
  daemon.signal(SIGHUP);
  daemon.expect_err("loaded the secrets of", 2);
  const std::string port = daemon.out().substr(daemon.out().rfind(':') + 1);
  const Words ask = {from_build("CPPRUNCTL"),
                     "--address=127.0.0.1:" + port.substr(0, port.find('\n')), "ls"};
  CHECK(run(ask, after).code == 0);
  CHECK(run(ask, before).code != 0);
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
}

}  // namespace secret_links_test
