// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/message.h"

#include <doctest/doctest.h>

#include "proto/bounds.h"
#include "proto/link/bounds.h"
#include "proto/link/codec.h"

namespace link_limits_test {

using namespace cpprun;
using namespace cpprun::link;

namespace {

Failed failed_with(ExitStatus status) {
  return {.round = RoundNumber{1}, .failure = {.host = "h", .status = status}};
}

// Why the frame of that message is rejected; empty if it is accepted.
std::string refusal_of(const Message& message) {
  const auto decoded = decode(encode(message));
  return decoded ? std::string{} : decoded.error().reason;
}

std::string refusal_of_text(std::string_view body) {
  std::string frame = {static_cast<char>(body.size() & 0xFF), static_cast<char>(body.size() >> 8),
                       0, 0};
  const auto decoded = decode(frame += body);
  return decoded ? std::string{} : decoded.error().reason;
}

}  // namespace

TEST_CASE("an exit code or a signal that no kernel reports is rejected") {
  // A parent process would see 256 as 0.
  CHECK(refusal_of(failed_with({false, 256})) ==
        "invalid link message \"failed\": status=256 is out of range");
  CHECK(refusal_of(failed_with({false, 0})) ==
        "invalid link message \"failed\": status=0 is out of range");
  CHECK(refusal_of(failed_with({false, -1})).find("status=-1") != std::string::npos);
  CHECK(refusal_of(failed_with({true, 0})).find("signal=0") != std::string::npos);
  CHECK(refusal_of(failed_with({true, 65})).find("signal=65") != std::string::npos);
  CHECK(refusal_of(failed_with({false, 255})).empty());
  CHECK(refusal_of(failed_with({true, 64})).empty());
  CHECK(refusal_of(Leave{.signal = 65}).find("signal=65") != std::string::npos);
  CHECK(refusal_of(Leave{.signal = -1}).find("signal=-1") != std::string::npos);
  CHECK(refusal_of(Finish{.exit_code = 256}).find("code=256") != std::string::npos);
}

TEST_CASE("a thousand addresses and names of five thousand bytes end the link") {
  Join join{.job = "j", .host = "h"};
  join.addresses.assign(1000, "10.0.0.1");
  CHECK(refusal_of(join) == "invalid link message \"join\": 1000 addresses, and the maximum is 4");
  join.addresses = {std::string(46, '1')};
  CHECK(refusal_of(join) ==
        "invalid link message \"join\": an address of 46 bytes, and the maximum is 45");
  join.addresses.clear();
  join.restarts.final_codes.assign(9, 1);
  CHECK(refusal_of(join).find("9 codes in final") != std::string::npos);
  join.restarts.final_codes = {256};
  CHECK(refusal_of(join).find("final=256") != std::string::npos);
  join.restarts.final_codes = {255, -64};
  join.restarts.free_codes = {255, -64};
  CHECK(refusal_of(join).empty());
  join.host = std::string(256, 'h');
  CHECK(refusal_of(join) ==
        "invalid link message \"join\": a host of 256 bytes, and the maximum is 255");
  join.host = "h";
  join.role = std::string(bounds::role_bytes_max * 3 + 1, 'r');
  CHECK(refusal_of(join).find("a role of 385 bytes") != std::string::npos);
  join.role = "r";
  join.job = std::string(bounds::job_id_bytes_max * 3 + 1, 'j');
  CHECK(refusal_of(join).find("a job's id of 769 bytes") != std::string::npos);
}

TEST_CASE("a number that does not fit its field is rejected and not truncated") {
  // 2^32 + 1 would be 1.
  CHECK(refusal_of_text(R"({"say":"drained","round":4294967297})") ==
        "invalid link frame: round is not a whole number, or out of range");
  CHECK_FALSE(refusal_of_text(R"({"say":"drained","round":-1})").empty());
  CHECK_FALSE(refusal_of_text(R"({"say":"drained","round":1.5})").empty());
  CHECK_FALSE(refusal_of_text(R"({"say":"drained","round":true})").empty());
  CHECK_FALSE(refusal_of_text(R"({"say":"drained","round":"1"})").empty());
  CHECK(refusal_of_text(R"({"say":"drained","round":4294967295})").empty());
  CHECK_FALSE(refusal_of_text(R"({"say":"leave","signal":99999999999,"reason":""})").empty());
  CHECK_FALSE(refusal_of_text(R"({"say":"heartbeat","sent":1e300,"trip":0})").empty());
  CHECK_FALSE(refusal_of_text(R"({"say":"heartbeat","sent":0,"trip":-1})").empty());
  CHECK_FALSE(
      refusal_of_text(
          R"({"say":"finish","code":1,"reason":"","others":[[1,0,-2147483648]],"other_count":1})")
          .empty());
}

TEST_CASE("unsaved time and watch time are neither negative nor endless") {
  CHECK(refusal_of_text(R"({"say":"drained","round":1,"unsaved_ms":2147483647})").empty());
  CHECK(refusal_of_text(R"({"say":"drained","round":1,"unsaved_ms":-1})") ==
        "invalid link message \"drained\": unsaved_ms=-1 is out of range");
  CHECK_FALSE(refusal_of_text(R"({"say":"drained","round":1,"unsaved_ms":2147483648})").empty());
  CHECK(refusal_of_text(R"({"say":"heartbeat","sent":1,"trip":0,"watch_ms":3600000})").empty());
  CHECK_FALSE(
      refusal_of_text(R"({"say":"heartbeat","sent":1,"trip":0,"watch_ms":3600001})").empty());
  CHECK_FALSE(refusal_of_text(R"({"say":"heartbeat","sent":1,"trip":0,"watch_ms":-1})").empty());
}

TEST_CASE("a seat with contradictory numbers is rejected") {
  const Sealed seat{.round = RoundNumber{1},
                    .group_rank = GroupRank{1},
                    .group_world_size = 2,
                    .base_rank = Rank{2},
                    .world_size = 4,
                    .role_base_rank = 2,
                    .role_world_size = 4,
                    .store_port = 29500};
  CHECK(refusal_of(seat).empty());
  const auto changed = [&seat](auto change) {
    Sealed other = seat;
    change(other);
    return refusal_of(other);
  };
  CHECK(changed([](Sealed& s) { s.group_rank.value = 2; }).find("node=2") != std::string::npos);
  CHECK(changed([](Sealed& s) { s.base_rank.value = 4; }).find("base=4") != std::string::npos);
  CHECK(changed([](Sealed& s) { s.world_size = 0; }).find("world=0") != std::string::npos);
  CHECK(changed([](Sealed& s) { s.role_base_rank = -1; }).find("role_base") != std::string::npos);
  CHECK(changed([](Sealed& s) { s.store_port = 65'536; }).find("store_port") != std::string::npos);
  CHECK(changed([](Sealed& s) { s.restart_count = -1; }).find("restart=-1") != std::string::npos);
}

TEST_CASE("negative ranks and pids are rejected, and texts are limited") {
  Failed failed = failed_with({false, 1});
  failed.failure.rank = Rank{-1};
  CHECK(refusal_of(failed).find("rank=-1") != std::string::npos);
  failed = failed_with({false, 1});
  failed.failure.pid = -1;
  CHECK(refusal_of(failed).find("pid=-1") != std::string::npos);
  failed = failed_with({false, 1});
  failed.failure.local_rank = LocalRank{bounds::local_world_size_max};
  CHECK(refusal_of(failed).find("local_rank=2048") != std::string::npos);
  failed = failed_with({false, 1});
  failed.failure.cause = std::string(65, 'c');
  CHECK(refusal_of(failed).find("a cause of 65 bytes") != std::string::npos);
  const std::string long_text(7000, 'x');
  CHECK(refusal_of_text("{\"say\":\"leave\",\"signal\":15,\"reason\":\"" + long_text + "\"}") ==
        "invalid link message \"leave\": a reason of 7000 bytes, and the maximum is 6147");
  // The encoder's limit is within it.
  CHECK(refusal_of(Leave{.signal = 15, .reason = long_text}).empty());
}

TEST_CASE("a question for the host and its answer have the bounds of a join") {
  CHECK(refusal_of(WhoHosts{.job = "j", .host = "h", .pid = 7}).empty());
  CHECK(refusal_of(WhoHosts{.job = std::string(800, 'j')}).find("a job's id of 800 bytes") !=
        std::string::npos);
  CHECK(refusal_of(Hosts{.host = std::string(5000, 'h')}).find("a host of ") != std::string::npos);
  CHECK(refusal_of(Hosts{.pid = -1}).find("pid=-1") != std::string::npos);
  Sealed sealed{.round = RoundNumber{1}, .store_port = 29500};
  sealed.neighbour.assign(5, "10.0.0.1");
  CHECK(refusal_of(sealed).find("5 neighbours") != std::string::npos);
}

TEST_CASE("a save names an existing signal") {
  CHECK(refusal_of(Save{.signal = 10}).empty());
  CHECK(refusal_of(Save{.signal = 0}).find("signal=0") != std::string::npos);
  CHECK(refusal_of(Save{.signal = 65}).find("signal=65") != std::string::npos);
}

TEST_CASE("a standby's record is sent in parts that fit, and its address is valid") {
  CHECK(refusal_of(Record{RoundNumber{1}, 2, 3, std::string(12 * 1024, '\xFF')}).empty());
  CHECK(refusal_of(Record{RoundNumber{1}, 0, 1, std::string(12 * 1024 + 1, 'x')})
            .find("12289 bytes") != std::string::npos);
  CHECK(refusal_of(Record{RoundNumber{1}, 3, 3, "x"}).find("part=3") != std::string::npos);
  CHECK(refusal_of(Record{RoundNumber{1}, 0, 1025, "x"}).find("parts=1025") != std::string::npos);
  CHECK(refusal_of(Stands{RoundNumber{1}, 0}).find("port=0") != std::string::npos);
  CHECK(refusal_of(Standby{RoundNumber{1}, std::string(46, '1'), 1}).find("46 bytes") !=
        std::string::npos);
  CHECK(refusal_of(Led{"10.0.0.1", 65'536}).find("port=65536") != std::string::npos);
  CHECK(refusal_of(Members{1, std::vector<std::string>(8, "a:1"), {}}).find("8 places") !=
        std::string::npos);
  CHECK(refusal_of(Members{1, {std::string(260, 'a')}, {}}).find("260 bytes") != std::string::npos);
  CHECK(refusal_of(NotLeading{"no", "a", 65'536}).find("port=65536") != std::string::npos);
  CHECK(refusal_of(Follow{.name = std::string(300, 'a')}).find("300 bytes") != std::string::npos);
  CHECK(refusal_of(WhoHosts{.job = "j", .host = "h", .leads_port = -1}).find("leads_port=-1") !=
        std::string::npos);
  CHECK(refusal_of_text(R"({"say":"record","round":1,"part":0,"parts":1,"bytes":"0g"})")
            .find("bytes is not hexadecimal") != std::string::npos);
}

}  // namespace link_limits_test
