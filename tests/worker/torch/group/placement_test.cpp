// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/placement.h"

#include <doctest/doctest.h>

namespace placement_test {

using namespace cpprun;

namespace {

Context launched() {
  Context context;
  context.rank = Rank{1};
  context.world_size = 2;
  context.store = {.address = "10.0.0.1", .port = 29500, .hosted_by_launcher = true};
  context.launched_by = LaunchedBy::torchrun;
  return context;
}

std::string reason_of(const Context& context, const PlacementRequest& request) {
  const auto placement = place(context, request);
  return placement ? "accepted" : placement.error().reason;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("env:// uses the launcher's variables") {
  const auto placement = place(launched(), {});
  REQUIRE(placement.has_value());
  CHECK(placement->context == launched());
  CHECK(placement->meeting == Meeting::tcp);
  CHECK_FALSE(serves_store(*placement));
}

TEST_CASE("a worker without a launcher is alone and needs no network") {
  CHECK(place(Context{}, {})->meeting == Meeting::alone);
}

TEST_CASE("rank and world size may be given in the options or in the address") {
  Context bare;
  bare.store = {.address = "10.0.0.1", .port = 29500};
  const auto by_options = place(bare, {.rank = 0, .world_size = 3});
  REQUIRE(by_options.has_value());
  CHECK(by_options->context.world_size == 3);
  CHECK(serves_store(*by_options));
  const auto by_address = place(Context{}, {.init_method = "tcp://[::1]:7000?rank=2&world_size=3"});
  REQUIRE(by_address.has_value());
  CHECK(by_address->context.rank == Rank{2});
  CHECK(by_address->context.store.address == "::1");
  CHECK(by_address->context.store.port == 7000);
  CHECK(by_address->meeting == Meeting::tcp);
}

TEST_CASE("tcp:// means rank 0's store, unless it names the launcher's") {
  Context context = launched();
  context.rank = Rank{0};
  CHECK(serves_store(*place(context, {.init_method = "tcp://10.0.0.1:7000"})));
  CHECK_FALSE(serves_store(*place(context, {.init_method = "tcp://10.0.0.1:29500"})));
}

TEST_CASE("file:// names a file, and no rank serves it") {
  const auto placement = place(launched(), {.init_method = "file:///shared/job.init"});
  REQUIRE(placement.has_value());
  CHECK(placement->meeting == Meeting::file);
  CHECK(placement->file == "/shared/job.init");
  CHECK_FALSE(serves_store(*placement));
}

TEST_CASE("an explicit store needs no address") {
  CHECK(place(Context{}, {.rank = 1, .world_size = 2, .store_given = true})->meeting ==
        Meeting::given);
}

TEST_CASE("an invalid init method is rejected with a hint") {
  const Context bare;
  CHECK(contains(reason_of(bare, {.init_method = "10.0.0.1:29500"}),
                 "valid init methods are env://"));
  CHECK(contains(reason_of(bare, {.init_method = "http://a:1?rank=0&world_size=1"}),
                 "valid init methods are env://"));
  CHECK(contains(reason_of(launched(), {.init_method = "tcp://10.0.0.1"}), "has no port"));
  CHECK(contains(reason_of(launched(), {.init_method = "tcp://:29500"}), "has no host"));
  CHECK(contains(reason_of(launched(), {.init_method = "file://job.init"}), "three slashes"));
  CHECK(contains(reason_of(bare, {.init_method = "tcp://a:1?rank=x"}), "\"rank=x\" is neither"));
}

TEST_CASE("a missing or impossible rank is rejected") {
  const Context bare;
  CHECK(contains(reason_of(bare, {.init_method = "tcp://a:1"}),
                 "rank and world_size are missing, and no launcher has set them"));
  CHECK(contains(reason_of(bare, {.rank = 1}), "world_size is missing"));
  CHECK(contains(reason_of(bare, {.rank = 0, .world_size = 2}), "MASTER_ADDR is not set"));
  CHECK(contains(reason_of(launched(), {.rank = 2}), "rank=2 must be from 0 to 1"));
  CHECK(contains(reason_of(launched(), {.world_size = 0}), "world_size=0 must be at least 1"));
  CHECK(contains(reason_of(bare, {.init_method = "tcp://a:1?rank=1&world_size=2", .rank = 0}),
                 "rank is 0 in the options and 1 in"));
}

}  // namespace placement_test
