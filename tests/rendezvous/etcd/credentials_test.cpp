// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/etcd_request.h"

#include <doctest/doctest.h>

namespace credentials_test {

using namespace cpprun;
using namespace cpprun::etcd;
using Kind = Failure::Kind;

TEST_CASE("without a user no token is requested") {
  Credentials anonymous;
  CHECK_FALSE(anonymous.needed());
  CHECK_FALSE(anonymous.may_ask_again({Kind::unauthenticated, ""}, ""));
}

TEST_CASE("a user requests a token once") {
  Credentials user("me", "secret");
  CHECK(user.needed() == Authenticate{"me", "secret"});
  user.hear(Authenticated{"t1"});
  CHECK_FALSE(user.needed());
  CHECK(user.token() == "t1");
}

TEST_CASE("an expired token is requested again, and the failed request is retried") {
  Credentials user("me", "secret");
  user.hear(Authenticated{"t1"});
  CHECK_FALSE(user.may_ask_again({Kind::forbidden, ""}, "t1"));
  CHECK(user.may_ask_again({Kind::unauthenticated, ""}, "t1"));
  CHECK(user.needed());
  // Another request has fetched a new token meanwhile.
  user.hear(Authenticated{"t2"});
  CHECK(user.may_ask_again({Kind::unauthenticated, ""}, "t1"));
  CHECK_FALSE(user.needed());
  CHECK(user.token() == "t2");
}

TEST_CASE("an etcd without authentication gets no token until it requires one") {
  Credentials user("me", "secret");
  CHECK(user.hear(Failure{Kind::no_authentication, ""}));
  CHECK_FALSE(user.needed());
  CHECK(user.may_ask_again({Kind::unauthenticated, ""}, ""));
  CHECK(user.needed());
  CHECK_FALSE(user.hear(Failure{Kind::forbidden, ""}));
  CHECK(user.needed());
}

}  // namespace credentials_test
