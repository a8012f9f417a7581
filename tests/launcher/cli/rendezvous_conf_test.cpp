// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/rendezvous_settings.h"

#include <doctest/doctest.h>

namespace rendezvous_conf_test {

using namespace cpprun;
using namespace std::chrono_literals;

using Words = std::vector<std::string>;

TEST_CASE("rendezvous keys are read, and an unknown one is an error") {
  Words problems;
  const auto timeouts = read_rendezvous_conf(
      " join_timeout = 5 , "
      "timeout=9,keep_alive_interval=0.25,keep_alive_max_attempt=4,read_timeout=1,"
      "last_call_timeout=8,is_host=yes",
      "F", problems);
  CHECK(timeouts == Timeouts{5s, 250ms, 4, 8s, true});
  CHECK(problems.empty());
  CHECK(read_rendezvous_conf("timeout=9", "F", problems).join_timeout == 9s);
  static_cast<void>(
      read_rendezvous_conf("join_timeuot=5,is_host=maybe,join_timeout=0,keep_alive_max_attempt=1.5,"
                           "rank=1,=3,store_type=file,ca_cert=x,"
                           "protocol=ftp",
                           "F", problems));
  CHECK(problems == Words{"F: unknown key \"join_timeuot\" (valid: join_timeout, timeout, "
                          "last_call_timeout, keep_alive_interval, keep_alive_max_attempt, "
                          "is_host; for etcd also protocol, cacert, cert, key, user, "
                          "password_file, etcd_prefix, etcd_lease; other keys of torchrun have "
                          "no effect)",
                          "F: is_host=maybe is neither true nor false",
                          "F: join_timeout=0 is not a number of seconds from 0.01 to 2000000",
                          "F: keep_alive_max_attempt=1.5 is not a whole number from 1 to 100",
                          "F: rank=1 is not supported here\n  hint: use --node-rank=1",
                          "F: \"=3\" is not key=value, such as join_timeout=600",
                          "F: unsupported store_type \"file\" (only tcp)",
                          "F: protocol=ftp is neither http nor https"});
}

TEST_CASE("torchrun's pause after a lost compare-and-set is checked as there, and has no effect") {
  Words problems;
  for (const char* good : {"0", "0.5", "1e300"}) {
    const auto text = std::string("cas_backoff_max_seconds=") + good;
    CHECK(read_rendezvous_conf(text, "F", problems) == Timeouts{});
  }
  CHECK(problems.empty());
  for (const char* bad : {"-1", "inf", "nan", "soon"}) {
    (void)read_rendezvous_conf(std::string("cas_backoff_max_seconds=") + bad, "F", problems);
  }
  REQUIRE(problems.size() == 4);
  CHECK(problems[1] == "F: cas_backoff_max_seconds=inf is not a number of seconds, 0 or more");
}

TEST_CASE("etcd's keys are read by torchrun's names, and by those of its other etcd rendezvous") {
  Words problems;
  const auto read = [&problems](std::string_view text) {
    return read_rendezvous_conf(text, "F", problems);
  };
  CHECK(read("protocol=https,cacert=a,cert=c,key=k,etcd_prefix=/p,user=u,password_file=w") ==
        read("protocol=https,ca_cert=a,ssl_cert=c,ssl_cert_key=k,etcd_prefix=/p,user=u,"
             "password_file=w"));
  const auto timeouts = read("protocol=https,cacert=a,cert=c,key=k,etcd_prefix=/p");
  CHECK(timeouts.etcd_protocol == "https");
  const EtcdMeeting& etcd = timeouts.etcd;
  CHECK(etcd.authorities_file == "a");
  CHECK(etcd.certificate_file == "c");
  CHECK(etcd.key_file == "k");
  CHECK(etcd.prefix == "/p");
  CHECK_FALSE(etcd.lease.has_value());
  CHECK(read("etcd_lease=20").etcd.lease == std::chrono::seconds(20));
  CHECK(problems.empty());
  (void)read("etcd_lease=1");
  CHECK(problems == Words{"F: etcd_lease=1 is not a number of seconds from 2 to 120"});
}

}  // namespace rendezvous_conf_test
