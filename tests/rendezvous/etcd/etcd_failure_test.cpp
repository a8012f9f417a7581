// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/etcd_request.h"

#include <doctest/doctest.h>

namespace etcd_failure_test {

using namespace cpprun;
using etcd::Failure;
using Kind = Failure::Kind;

TEST_CASE("an error code and message of etcd map to a kind of failure") {
  CHECK(etcd::kind_of(5, "etcdserver: requested lease not found") == Kind::no_such_lease);
  CHECK(etcd::kind_of(5, "etcdserver: user name not found") == Kind::rejected);
  CHECK(etcd::kind_of(9, "etcdserver: lease already exists") == Kind::lease_exists);
  CHECK(etcd::kind_of(9, "etcdserver: authentication is not enabled") == Kind::no_authentication);
  CHECK(etcd::kind_of(9, "etcdserver: something else") == Kind::rejected);
  CHECK(etcd::kind_of(8, "etcdserver: mvcc: database space exceeded") == Kind::no_space);
  CHECK(etcd::kind_of(8, "etcdserver: too many requests") == Kind::unavailable);
  CHECK(etcd::kind_of(3, "etcdserver: user name is empty") == Kind::unauthenticated);
  CHECK(etcd::kind_of(3, "etcdserver: revision of auth store is old") == Kind::unauthenticated);
  CHECK(etcd::kind_of(3, "etcdserver: authentication failed, invalid user ID or password") ==
        Kind::forbidden);
  CHECK(etcd::kind_of(3, "etcdserver: request is too large") == Kind::rejected);
  CHECK(etcd::kind_of(7, "etcdserver: permission denied") == Kind::forbidden);
  CHECK(etcd::kind_of(16, "etcdserver: invalid auth token") == Kind::unauthenticated);
  for (const int code : {1, 2, 4, 10, 13, 14, 15})
    CHECK(etcd::kind_of(code, "") == Kind::unavailable);
  CHECK(etcd::kind_of(12, "unimplemented") == Kind::rejected);
  CHECK(etcd::kind_of(-1, "") == Kind::rejected);
}

TEST_CASE("a request without a response, or rejected by a full etcd, may have been executed") {
  for (const Kind kind : {Kind::silent, Kind::unavailable, Kind::nonsense, Kind::no_space}) {
    CHECK(etcd::may_have_happened(kind));
  }
  for (const Kind kind : {Kind::unreachable, Kind::forbidden, Kind::no_such_lease,
                          Kind::lease_exists, Kind::rejected, Kind::unauthenticated}) {
    CHECK_FALSE(etcd::may_have_happened(kind));
  }
}

TEST_CASE("another member is asked if the failure concerns only this member") {
  for (const Kind kind : {Kind::unreachable, Kind::silent, Kind::unavailable, Kind::nonsense}) {
    CHECK(etcd::is_of_this_member(kind));
  }
  for (const Kind kind : {Kind::no_space, Kind::forbidden, Kind::rejected}) {
    CHECK_FALSE(etcd::is_of_this_member(kind));
  }
}

TEST_CASE("a failure is described with the endpoint, the response and a hint") {
  const EtcdEndpoint endpoint{false, "a", 2379};
  const auto text = [&](Kind kind, const char* said) {
    return etcd::describe({kind, said}, endpoint);
  };
  CHECK(text(Kind::unreachable, "connection refused") ==
        "etcd at http://a:2379 cannot be reached: connection refused");
  CHECK(text(Kind::silent, "no response within 0.5 s") ==
        "etcd at http://a:2379 is not responding: no response within 0.5 s");
  CHECK(text(Kind::unavailable, "etcdserver: no leader") ==
        "etcd at http://a:2379 has no quorum (\"etcdserver: no leader\"); more than half of its "
        "members must run and reach each other");
  CHECK(text(Kind::no_space, "space exceeded").find("`etcdctl alarm disarm`") != std::string::npos);
  CHECK(text(Kind::unauthenticated, "x").find("give a user and a password") != std::string::npos);
  CHECK(text(Kind::forbidden, "x").find("check the user and the password") != std::string::npos);
  CHECK(text(Kind::rejected, "x") == "etcd at http://a:2379 rejected the request: \"x\"");
  CHECK(text(Kind::nonsense, "the response is not HTTP") ==
        "the server at http://a:2379 is not etcd 3.4 or later: the response is not HTTP");
}

}  // namespace etcd_failure_test
