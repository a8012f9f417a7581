// SPDX-License-Identifier: BSD-3-Clause
// The machine has no memory left for a turn or two, at any point: every client with a request is
// answered or closed, and later clients are served.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "rendezvous/store/bounds.h"
#include "rendezvous/store/io/listener.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/io/served_set.h"
#include "tests/rendezvous/store/spoken.h"

namespace {

bool has_no_memory = false;

void* allocate(std::size_t bytes) {
  return has_no_memory ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

// Replaces the allocator of this whole program.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* const got = allocate(bytes)) return got;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

using namespace cpprun;
using c10d::golden::bytes_of;

namespace {

// More waiters than are notified at once, and a request of more keys than are processed at once.
constexpr std::size_t waiters = bounds::store_told_at_once_max + 100;
constexpr std::size_t keys = bounds::store_keys_at_once_max + 2;

std::string set_of_many() {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < keys; ++at) names.push_back("k" + std::to_string(at));
  std::vector<c10d::KeyValue> entries;
  for (const std::string& name : names) entries.push_back({name, "v"});
  return request(c10d::MultiSet{entries});
}

// A client that sets many keys, and clients that wait for the first of them. After the request is
// sent, all allocations fail in that many turns, starting with the first. Returns the number of
// turns until no work was left.
int play(const std::string& set, int first, int count) {
  ServedSet served;
  RawClient setter(served.listening.port);
  served.ask(setter, hello + request(c10d::Add{"n", 1}), 8);
  std::vector<RawClient> crowd;
  const std::vector<c10d::Bytes> awaited = {"k0"};
  const std::string wait = hello + request(c10d::Add{"n", 1}) + request(c10d::Wait{awaited});
  for (std::size_t at = 0; at < waiters; ++at) {
    crowd.emplace_back(served.listening.port);
    served.ask(crowd.back(), wait, 8);
  }
  // All bytes are in the kernel or in the server, and no end is decided yet.
  const std::string last = request(c10d::Add{"last", 1});
  served.say(setter, std::string_view(set).substr(0, set.size() - 1));
  setter.offer(set.substr(set.size() - 1) + last);
  int turns = 0;
  bool has_more = true;
  for (; has_more && turns < 1000; ++turns) {
    has_no_memory = turns >= first && turns < first + count;
    has_more = served.set.serve(std::chrono::steady_clock::now());
    has_no_memory = false;
    // Unread bytes in the sockets count as work, too.
    pollfd watched{served.set.descriptor(), POLLIN, 0};
    has_more = has_more || poll(&watched, 1, 0) == 1;
  }
  served.until([&] {
    setter.listen_now();
    return setter.was_closed || setter.heard.size() == 8;
  });
  // The remaining waiters wait for a key that was not set.
  RawClient other(served.listening.port);
  served.say(other, hello + request(c10d::Set{"k0", "v"}));
  served.until([&] {
    for (RawClient& each : crowd) each.listen_now();
    return std::ranges::all_of(
        crowd, [](const RawClient& each) { return each.was_closed || !each.heard.empty(); });
  });
  return turns;
}

}  // namespace

TEST_CASE("no client waits for ever, whichever turns have no memory") {
  if (raise_descriptor_limit() < 4 * waiters) {
    std::puts(
        "skipped: the limit of descriptors is too low for two ends of a thousand connections");
    return;
  }
  const std::string set = set_of_many();
  const int turns = play(set, 0, 0);
  REQUIRE(turns > 4);
  for (int first = 0; first < turns; ++first) {
    CAPTURE(first);
    play(set, first, 1 + 2 * (first % 2));
  }
}
