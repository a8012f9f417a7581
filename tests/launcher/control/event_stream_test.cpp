// SPDX-License-Identifier: BSD-3-Clause
#include "proto/http/client.h"

#include <doctest/doctest.h>

#include "proto/http/bounds.h"

namespace event_stream_test {

using namespace cpprun;

TEST_CASE("events are the same wherever their bytes are split") {
  const std::string bytes =
      "id: a1-3\ndata: {\"a\":1}\n\n:\n\nid: a1-4\r\ndata: one\r\ndata: two\r\n\r\n";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    CAPTURE(piece);
    http::EventStream stream;
    std::vector<std::string> heard;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      const auto some = stream.hear(std::string_view(bytes).substr(at, piece));
      REQUIRE(some);
      heard.insert(heard.end(), some->begin(), some->end());
    }
    CHECK(heard == std::vector<std::string>{"{\"a\":1}", "one\ntwo"});
  }
}

TEST_CASE("comments, empty events and unknown members are skipped") {
  http::EventStream stream;
  CHECK(stream.hear(": 3 older events were dropped\n\nretry: 5\nevent: x\n\n\n")->empty());
  CHECK(stream.hear("id: 7\ndata\n\n")->size() == 1);
}

TEST_CASE("an event without an end is given up") {
  http::EventStream stream;
  CHECK(stream.hear("data: "));
  CHECK_FALSE(stream.hear(std::string(bounds::event_bytes_max + 1, 'x')));
  http::EventStream lines;
  const std::string line = "data: " + std::string(bounds::event_bytes_max / 2, 'x') + "\n";
  CHECK(lines.hear(line));
  CHECK_FALSE(lines.hear(line + line));
}

}  // namespace event_stream_test
