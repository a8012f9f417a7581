// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_log.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace store_log_test {

using namespace cpprun;
using Kind = StoreRecord::Kind;

namespace {

// All records of that log, read in pieces of that many bytes, as they are printed.
std::vector<std::string> read(const std::string& log, std::size_t piece) {
  StoreLogReader reader;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < log.size(); at += piece) {
    reader.hear(std::string_view(log).substr(at, piece));
    while (true) {
      const auto record = reader.next();
      REQUIRE(record);
      if (!*record) break;
      const StoreRecord& it = **record;
      lines.push_back(std::to_string(static_cast<int>(it.kind)) + " " +
                      std::to_string(it.client.value) + " " + std::to_string(it.node.value) + "." +
                      std::to_string(it.stream.value) + " " + std::to_string(it.place) + " " +
                      std::to_string(it.count) + " " + std::to_string(it.flags) + " " +
                      std::string(it.key) + "|" + std::string(it.bytes));
    }
  }
  CHECK(reader.left() == 0);
  return lines;
}

std::string reason_of(std::string_view bytes) {
  StoreLogReader reader;
  reader.hear(bytes);
  const auto record = reader.next();
  return record ? "" : record.error().reason;
}

}  // namespace

TEST_CASE("a log is read back the same, wherever it is cut") {
  StoreLog log;
  const PeerAddress peer{.ip = {1, 2, 3}, .port = 0xfe01};
  const std::string address = bytes_of(peer);
  log.add({.kind = Kind::opened,
           .client = ConnectionId{1ULL << 60},
           .node = GroupRank{3},
           .stream = link::StreamId{0xffffffff},
           .key = address});
  log.read(ConnectionId{7}, std::string(300, 'x'));
  log.decided(ConnectionId{7}, 100);
  log.listed(ConnectionId{7}, 1, "reply");
  log.abandoned(ConnectionId{7});
  log.add({.kind = Kind::renamed, .client = ConnectionId{7}, .place = 8, .count = 1});
  log.add({.kind = Kind::taken,
           .node = GroupRank{3},
           .stream = link::StreamId{2},
           .place = 1ULL << 50});
  log.closed(ConnectionId{7});
  log.add({.kind = Kind::stream,
           .node = GroupRank{3},
           .stream = link::StreamId{2},
           .place = 5,
           .count = 6,
           .flags = 1,
           .bytes = "out"});
  const std::string bytes = log.take();
  const std::vector<std::string> expected = {
      "1 1152921504606846976 3.4294967295 0 0 0 " + address + "|",
      "2 7 0.0 0 0 0 |" + std::string(300, 'x'),
      "3 7 0.0 0 100 0 |",
      "4 7 0.0 0 1 0 |reply",
      "8 7 0.0 0 0 0 |",
      "9 7 0.0 8 1 0 |",
      "5 0 3.2 1125899906842624 0 0 |",
      "6 7 0.0 0 0 0 |",
      "22 0 3.2 5 6 1 |out"};
  CHECK(read(bytes, 1) == expected);
  CHECK(read(bytes, 7) == expected);
  CHECK(read(bytes, bytes.size()) == expected);
  CHECK(peer_of(address) == peer);
  CHECK_FALSE(peer_of("short"));
}

TEST_CASE("consecutive requests are one record") {
  StoreLog log;
  log.decided(ConnectionId{1}, 10);
  log.decided(ConnectionId{1}, 20);
  log.decided(ConnectionId{2}, 5);
  CHECK(log.has_more());
  log.read(ConnectionId{1}, "x");
  log.decided(ConnectionId{1}, 1);
  const std::string bytes = log.take();
  CHECK(read(bytes, 3) == std::vector<std::string>{"3 1 0.0 0 30 0 |", "3 2 0.0 0 5 0 |",
                                                   "2 1 0.0 0 0 0 |x", "3 1 0.0 0 1 0 |"});
  CHECK_FALSE(log.has_more());
  CHECK(log.written() == bytes.size());
}

TEST_CASE("an invalid record is reported, and its lengths are not trusted") {
  CHECK(reason_of("\x63") == "a record has the unknown kind 99");
  CHECK(reason_of(std::string(1, '\0')) == "a record has the unknown kind 0");
  const std::string endless = "\x03" + std::string(10, '\xff');
  CHECK(reason_of(endless) == "a record of kind 3 has a number that is too large");
  // A length of 2^62.
  const std::string huge = std::string("\x02\x01") + std::string(8, '\x80') + "\x40";
  CHECK(reason_of(huge) == "a record of kind 2 has a number that is too large");
  CHECK(reason_of("\x02\x01\x05wor").empty());
}

TEST_CASE("a failed append is remembered") {
  StoreLog log;
  CHECK_FALSE(log.is_lost());
  log.lost();
  CHECK(log.is_lost());
}

}  // namespace store_log_test
