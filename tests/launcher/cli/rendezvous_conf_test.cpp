// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/rendezvous_conf.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

using Words = std::vector<std::string>;

TEST_CASE("rendezvous keys are read, and an unknown one is a mistake") {
  Words complaints;
  const auto timeouts = read_rendezvous_conf(
      " join_timeout = 5 , "
      "timeout=9,keep_alive_interval=0.25,keep_alive_max_attempt=4,read_timeout=1,"
      "last_call_timeout=8,is_host=yes",
      "F", complaints);
  CHECK(timeouts == Timeouts{5s, 250ms, 4, 8s, true});
  CHECK(complaints.empty());
  CHECK(read_rendezvous_conf("timeout=9", "F", complaints).join_timeout == 9s);
  static_cast<void>(
      read_rendezvous_conf("join_timeuot=5,is_host=maybe,join_timeout=0,keep_alive_max_attempt=1.5,"
                           "rank=1,=3,store_type=file,ca_cert=x",
                           "F", complaints));
  CHECK(complaints ==
        Words{"F: join_timeuot is no key; there are join_timeout, timeout, last_call_timeout, "
              "keep_alive_interval, keep_alive_max_attempt and is_host, and torchrun's others "
              "without effect",
              "F: is_host=maybe is neither true nor false",
              "F: join_timeout=0 is no number of seconds from 0.01 to 2000000",
              "F: keep_alive_max_attempt=1.5 is no whole number from 1 to 100",
              "F: rank=1 belongs into --node-rank=1",
              "F: \"=3\" is not key=value, as in join_timeout=600",
              "F: store_type=file is not there, only tcp is",
              "F: ca_cert belongs to an etcd rendezvous, which is not there"});
}
