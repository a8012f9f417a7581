// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/etcd_request.h"

#include <doctest/doctest.h>

namespace credentials_test {

using namespace cpprun;
using namespace cpprun::etcd;
using Kind = Failure::Kind;

TEST_CASE("nobody in particular asks for no token") {
  Credentials nobody;
  CHECK_FALSE(nobody.needed());
  CHECK_FALSE(nobody.may_ask_again({Kind::unauthenticated, ""}, ""));
}

TEST_CASE("a user asks for a token once") {
  Credentials user("me", "secret");
  CHECK(user.needed() == Authenticate{"me", "secret"});
  user.hear(Authenticated{"t1"});
  CHECK_FALSE(user.needed());
  CHECK(user.token() == "t1");
}

TEST_CASE("a token that is forgotten is asked for anew, and what failed once more") {
  Credentials user("me", "secret");
  user.hear(Authenticated{"t1"});
  CHECK_FALSE(user.may_ask_again({Kind::forbidden, ""}, "t1"));
  CHECK(user.may_ask_again({Kind::unauthenticated, ""}, "t1"));
  CHECK(user.needed());
  // Another request has brought a new one meanwhile.
  user.hear(Authenticated{"t2"});
  CHECK(user.may_ask_again({Kind::unauthenticated, ""}, "t1"));
  CHECK_FALSE(user.needed());
  CHECK(user.token() == "t2");
}

TEST_CASE("an etcd without users is asked without a token, until it has some") {
  Credentials user("me", "secret");
  CHECK(user.hear(Failure{Kind::no_authentication, ""}));
  CHECK_FALSE(user.needed());
  CHECK(user.may_ask_again({Kind::unauthenticated, ""}, ""));
  CHECK(user.needed());
  CHECK_FALSE(user.hear(Failure{Kind::forbidden, ""}));
  CHECK(user.needed());
}

}  // namespace credentials_test
