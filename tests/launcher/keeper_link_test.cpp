#include "launcher/keeper_link.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

KeeperLink remote() {
  return KeeperLink{{.heartbeat = 1s, .lease = 3s}};
}

}  // namespace

TEST_CASE("a link that is up is due a heartbeat at each interval, and told so once") {
  KeeperLink link = remote();
  link.came_up(t0);
  CHECK(link.next_deadline() == t0 + 1s);
  CHECK(link.take_due(t0 + 1s).heartbeat);
  CHECK_FALSE(link.take_due(t0 + 1s).heartbeat);
  CHECK(link.next_deadline() == t0 + 2s);
}

TEST_CASE("a link that cannot be made is dialled with growing pauses until something is heard") {
  KeeperLink link = remote();
  link.went_down(t0);
  CHECK(link.next_deadline() == t0 + 50ms);
  CHECK(link.take_due(t0 + 50ms).dial);
  CHECK_FALSE(link.next_deadline());
  link.went_down(t0 + 50ms);
  CHECK(link.next_deadline() == t0 + 150ms);
  link.came_up(t0 + 150ms);
  link.heard(t0 + 160ms);
  link.went_down(t0 + 200ms);
  CHECK(link.next_deadline() == t0 + 250ms);
}

TEST_CASE("a link is silent when nothing was heard for the lease, whether it is up or down") {
  KeeperLink link = remote();
  link.came_up(t0);
  link.heard(t0 + 1s);
  link.went_down(t0 + 2s);
  CHECK_FALSE(link.silent(t0 + 4s - 1ns));
  CHECK(link.silent(t0 + 4s));
  CHECK(link.silent_at() == t0 + 4s);
}

TEST_CASE("a link within the keeper's own process has no heartbeat and is never silent") {
  KeeperLink link{{.heartbeat = 1s, .lease = 3s, .local = true}};
  link.came_up(t0);
  CHECK_FALSE(link.next_deadline());
  CHECK_FALSE(link.silent(t0 + 24h));
}
