// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A bounded buffer of the last events, for clients that start to watch, and the encoding of events
// as server-sent events. Each event is one JSON object of docs/events.md. Its id is the id of this
// process's run and an increasing number. Numbers restart with each run, so ids are compared as a
// whole. No I/O.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proto/http/session.h"
#include "rendezvous/status/bounds.h"

namespace cpprun {

class EventRing {
 public:
  // `run` must be unique to this process.
  explicit EventRing(std::string run, std::size_t events_max = bounds::events_kept_max,
                     std::size_t bytes_max = bounds::events_kept_bytes_max)
      : run_(std::move(run)), events_max_(events_max), bytes_max_(bytes_max) {}

  // `line` may end in a newline. `owner` is the owner of the event's job. Returns the encoded event
  // for clients that are watching already.
  std::string add(std::string_view line, const std::string& owner = {});
  // The encoded events after the given id; with an empty id all events in the buffer. A comment
  // line in the stream says how many events were dropped, or that the id belongs to another run.
  // `owner` restricts the result to events of that owner's jobs.
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
  std::uint64_t last_ = 0;
  std::size_t bytes_ = 0;
};

// GET /api/v1/events: the buffered events and all that follow, or with ?once the buffered ones
// only. Call events_answer() only if asks_for_events() returned true.
bool asks_for_events(const http::Request& request);
http::Response events_answer(const EventRing& ring, const http::Request& request,
                             const std::optional<std::string>& owner = {});

}  // namespace cpprun
