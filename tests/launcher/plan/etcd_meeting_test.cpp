// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/meeting_place.h"

#include <doctest/doctest.h>

#include <utility>

#include "tests/launcher/cli/cli_probe.h"

namespace etcd_meeting_test {

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

TEST_CASE("etcd's members are given in torchrun's syntax or in etcd's") {
  const auto plain = etcd_endpoints("a,b:2380", /*is_secure=*/false);
  REQUIRE(plain);
  CHECK(plain->first == Endpoint{"a", 2379});
  CHECK(plain->all == "http://a:2379,http://b:2380");
  CHECK(etcd_endpoints("a,b:2380", /*is_secure=*/true)->all == "https://a:2379,https://b:2380");
  // An explicit scheme wins over the protocol setting.
  CHECK(etcd_endpoints("http://a:1", /*is_secure=*/true)->all == "http://a:1");
  CHECK_FALSE(etcd_endpoints("", false));
  CHECK_FALSE(etcd_endpoints("a:99999", false));
}

TEST_CASE("no two jobs have the same name in etcd") {
  CHECK(etcd_cluster("", "train") == "job..train");
  CHECK(etcd_cluster("a", "b.c") != etcd_cluster("a.b", "c"));
  CHECK(etcd_cluster("/a/", "b") == "job.%2fa%2f.b");
  CHECK(etcd_cluster("", "a%2f") != etcd_cluster("", "a/"));
}

TEST_CASE("a node's own cpprund uses the job's settings, and serves no other job") {
  Config config;
  config.job = "train";
  config.keep_alive_interval = 20s;
  config.etcd = EtcdMeeting{.endpoints = "http://a:2379", .user = "me", .password_file = "p"};
  const auto options = own_daemon_options(config, "node1", "fd00::1", Secrets{});
  CHECK(options.etcd == "http://a:2379");
  CHECK(options.etcd_user == "me");
  CHECK(options.etcd_password_file == "p");
  CHECK(options.cluster == "job..train");
  CHECK(options.name == "node1");
  CHECK(options.advertised == "[fd00::1]");
  CHECK(options.port == 0);
  CHECK_FALSE(options.looks_for_secret);
  CHECK_FALSE(options.has_plain_store);
  CHECK(options.lease_max >= config.lease());
  CHECK(own_daemon_options(config, "node1", "10.0.0.1", Secrets{}).advertised == "10.0.0.1");
}

TEST_CASE("torchrun's command lines with etcd are accepted unchanged") {
  const Config config =
      good({"--rdzv-backend=etcd-v2", "--rdzv-endpoint=a:2379,b:2379", "--rdzv-id=train",
            "--nnodes=1:4", "--rdzv-conf=protocol=https,cacert=/ca", "x"});
  REQUIRE(config.etcd);
  CHECK(config.etcd->endpoints == "https://a:2379,https://b:2379");
  CHECK(config.etcd->authorities_file == "/ca");
  CHECK(config.job == "train");
  CHECK(config.meets_at_a_set());
  CHECK_FALSE(config.may_have_standby());
  CHECK(good({"--rdzv-backend=etcd", "--rdzv-endpoint=a", "x"}).etcd->endpoints == "http://a:2379");
}

TEST_CASE("an incomplete etcd rendezvous is rejected with the missing setting") {
  CHECK(
      diagnostics({"--rdzv-backend=etcd", "x"}) ==
      Words{"--rdzv-backend=etcd needs --rdzv-endpoint=HOST[:PORT],... with the members of etcd"});
  CHECK(
      diagnostics({"--rdzv-backend=etcd", "--rdzv-endpoint=a", "--rdzv-conf=cert=c,is_host=1", "x"})
          .size() == 2);
  CHECK(
      diagnostics({"--rdzv-backend=etcd", "--rdzv-endpoint=a", "--rdzv-conf=user=u", "x"}).size() ==
      1);
  CHECK(diagnostics({"--rdzv-backend=c10d", "--rdzv-endpoint=a", "--rdzv-conf=cacert=c", "x"})
            .size() == 1);
}

}  // namespace etcd_meeting_test
