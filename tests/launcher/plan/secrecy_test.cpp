// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/meeting_place.h"

#include <doctest/doctest.h>

namespace secrecy_test {

using namespace cpprun;

namespace {

Config job_of(int nodes) {
  Config config;
  config.rendezvous = RendezvousMode::fixed_master;
  config.endpoint = {"head", 29500};
  config.nodes_min = nodes;
  config.nodes_max = nodes;
  return config;
}

}  // namespace

TEST_CASE("a node alone needs no secret, and a node of several uses it") {
  CHECK_FALSE(uses_secret(Config{}));
  CHECK(uses_secret(job_of(2)));
  // It may meet a daemon that rejects nodes without a secret.
  CHECK(uses_secret(job_of(1)));
}

TEST_CASE("a job of several nodes without a secret is rejected where one is required") {
  Config config = job_of(2);
  CHECK(missing_secret(config) == std::nullopt);
  config.require_secret = true;
  REQUIRE(missing_secret(config));
  CHECK(missing_secret(config)->find("create one with \"cpprunctl keygen\"") != std::string::npos);
  config = job_of(1);
  config.require_secret = true;
  CHECK(missing_secret(config) == std::nullopt);
}

TEST_CASE("an open port is noted, except with one node, on loopback or with --insecure") {
  Config config = job_of(2);
  CHECK(open_port_note(config, "10.0.0.1") ==
        "port 29500 is open to every machine that can reach 10.0.0.1: this job has no secret\n"
        "  hint: create one with \"cpprunctl keygen\", or hide this note with --insecure");
  CHECK(open_port_note(job_of(1), "10.0.0.1") == std::nullopt);
  CHECK(open_port_note(config, "127.0.0.1") == std::nullopt);  // only this machine
  config.nodes_min = 1;
  CHECK(open_port_note(config, "10.0.0.1"));
  config.insecure = true;
  CHECK(open_port_note(config, "10.0.0.1") == std::nullopt);
}

TEST_CASE("the secret's path is not passed on, and all other variables are") {
  CHECK(without_secret_path({{"CPPRUN_SECRET_FILE", "/s"}, {"CPPRUN_CONFIG", "c"}, {"A", "1"}}) ==
        Environment{{"CPPRUN_CONFIG", "c"}, {"A", "1"}});
  CHECK(without_secret_path({{"A", "1"}}) == Environment{{"A", "1"}});
}

TEST_CASE("stores are local with a secret, unless --store overrides it") {
  Config config = job_of(2);
  CHECK(resolve_store(config, true) == StoreWay::local);
  CHECK(resolve_store(config, false) == StoreWay::direct);
  config.store = StoreWay::direct;
  CHECK(resolve_store(config, true) == StoreWay::direct);
  config.store = StoreWay::local;
  CHECK(resolve_store(config, false) == StoreWay::local);
}

TEST_CASE("the store of a cluster's job is reached through links, unless --store overrides it") {
  Config config = job_of(2);
  CHECK(resolve_store(config, false) == StoreWay::direct);
  CHECK(resolve_store(config, true) == StoreWay::local);
  config.places = {{"a", 29400}, {"b", 29400}};
  CHECK(resolve_store(config, false) == StoreWay::local);
  config.store = StoreWay::direct;
  CHECK(resolve_store(config, true) == StoreWay::direct);
}

}  // namespace secrecy_test
