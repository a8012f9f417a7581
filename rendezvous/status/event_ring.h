// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The last events, for whoever begins to watch, and how they are said as server-sent events. Each
// is one JSON object of docs/events.md and has an id: the id of this process's run, and a number
// that grows. Numbers begin again with each run, so an id is compared as a whole. Bounded; knows no
// socket.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proto/bounds.h"
#include "proto/http/session.h"

namespace cpprun {

class EventRing {
 public:
  // `run` differs from that of every other process.
  explicit EventRing(std::string run, std::size_t events_max = bounds::events_kept_max,
                     std::size_t bytes_max = bounds::events_kept_bytes_max)
      : run_(std::move(run)), events_max_(events_max), bytes_max_(bytes_max) {}

  // With or without its newline; `owner` is that of its job. Gives what is said of it to those who
  // watch already.
  std::string add(std::string_view line, const std::string& owner = {});
  // What follows the event with that id; empty: everything that is kept. A remark says how many
  // events are not kept any more, or that the id is of another run. With an owner, of whose jobs
  // alone.
  std::string since(std::string_view last_id, const std::optional<std::string>& owner = {}) const;
  std::size_t size() const { return lines_.size(); }

 private:
  std::string said(std::uint64_t number, std::string_view line) const;
  std::optional<std::uint64_t> number_of(std::string_view id) const;

  const std::string run_;
  const std::size_t events_max_;
  const std::size_t bytes_max_;
  struct Event {
    std::string line;
    std::string owner;
  };
  std::deque<Event> lines_;
  std::uint64_t last_ = 0;  // the number of the last one
  std::size_t bytes_ = 0;
};

// GET /api/v1/events: the ring and all that follows, or with ?once the ring alone. Whether the
// request is for that is asked first.
bool asks_for_events(const http::Request& request);
http::Response events_answer(const EventRing& ring, const http::Request& request,
                             const std::optional<std::string>& owner = {});

}  // namespace cpprun
