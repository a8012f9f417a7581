// SPDX-License-Identifier: BSD-3-Clause
// Programs of the last release beside those of this one, as they meet while a cluster is upgraded.
// CPPRUN_LAST_RELEASE names a directory with its cpprun and cpprund.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/integration/daemon_site.h"

namespace last_release_test {

using namespace cpprun::integration;

namespace {

enum class Release { last, ours };

std::string last_release() {
  const char* const directory = std::getenv("CPPRUN_LAST_RELEASE");
  return directory == nullptr ? "" : directory;
}

// Why the scene cannot run here; empty if it can.
std::string why_not(const Site& site) {
  if (last_release().empty()) {
    return "CPPRUN_LAST_RELEASE names no directory with programs of a release";
  }
  return site.cluster.hosts.why_not();
}

// The same command, with that release's program.
Words said_to(Release release, Words words, const char* program, const std::string& name) {
  if (release == Release::last) {
    std::ranges::replace(words, from_build(program), last_release() + "/" + name);
  }
  return words;
}

constexpr int steps = 4;

std::unique_ptr<Command> node(const Site& site, int host, Release release) {
  Words program = {from_build("CPPRUN_STORE_WORKER")};
  const Words adds = adds_in(steps);
  program.insert(program.end(), adds.begin(), adds.end());
  const Words words = site.cluster.node(host, {"--store=local"}, program);
  return std::make_unique<Command>(said_to(release, words, "CPPRUN", "cpprun"),
                                   site.cluster.options());
}

std::unique_ptr<Command> daemon(const Site& site, int host, Release release) {
  const Words words = {from_build("CPPRUND"), "--host=" + Hosts::address(host), "--port=29500",
                       "--status-access=none"};
  auto begun = std::make_unique<Command>(
      site.cluster.hosts.on(host, said_to(release, words, "CPPRUND", "cpprund")),
      site.cluster.options());
  begun->expect_out("\n");
  return begun;
}

// Two nodes of these releases at a daemon of that release: every increment is counted once.
void expect_to_work(Release at, Release one, Release other) {
  Site site;
  if (const auto why = why_not(site); !why.empty()) return skip(why);
  site.cluster.endpoint = Site::place(0);
  const auto meets_at = daemon(site, 0, at);
  const auto first = node(site, 1, one);
  const auto second = node(site, 2, other);
  expect_all_added({first.get(), second.get()}, steps);
  meets_at->signal(SIGTERM);
  CHECK(meets_at->wait().code == 0);
  site.cluster.expect_nothing_left();
}

}  // namespace

TEST_CASE("nodes of the last release meet at a cpprund of this one") {
  expect_to_work(Release::ours, Release::last, Release::last);
}

TEST_CASE("nodes of both releases meet at a cpprund of this one") {
  expect_to_work(Release::ours, Release::last, Release::ours);
}

TEST_CASE("nodes of both releases meet at a cpprund of the last one") {
  expect_to_work(Release::last, Release::ours, Release::last);
}

TEST_CASE(
    "a node of the last release works with the leader of several daemons, and knows no other") {
  Site site;
  if (const auto why = why_not(site); !why.empty()) return skip(why);
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  site.cluster.endpoint = Site::place(0);
  const auto first = node(site, 1, Release::last);
  const auto second = node(site, 2, Release::last);
  expect_all_added({first.get(), second.get()}, steps);
  site.end_all();
}

}  // namespace last_release_test
