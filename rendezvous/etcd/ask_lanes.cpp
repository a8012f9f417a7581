// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/ask_lanes.h"

#include <cassert>
#include <utility>

#include "proto/etcd_bounds.h"

namespace cpprun {

contest::Ask AskLanes::ask(TimePoint now, contest::Lane lane, Step step, etcd::Request request,
                           Duration patience) {
  State& state = of(lane);
  assert(!state.asked);
  state.id = AskId{++last_id_};
  state.asked = {lane, step, now, endpoint_, life_};
  return {state.id, lane, endpoint_, std::move(request), patience};
}

std::optional<AskLanes::Asked> AskLanes::take(AskId id) {
  for (State& state : states_) {
    if (state.asked && state.id == id) return std::exchange(state.asked, std::nullopt);
  }
  return std::nullopt;
}

void AskLanes::succeeded(const Asked& asked) {
  of(asked.lane).failures = 0;
}

void AskLanes::failed(TimePoint now, const Asked& asked, bool is_of_member, bool rests) {
  State& state = of(asked.lane);
  ++state.failures;
  if (is_of_member) turn_from(asked);
  // Once around without a pause, and then no faster than whoever looks at a log could follow.
  const bool is_round = is_of_member ? state.failures % endpoints_ == 0 : rests;
  state.ready = is_round ? now + bounds::etcd_round_pause : now;
}

void AskLanes::turn_from(const Asked& asked) {
  // The other lane may have turned away from it already.
  if (asked.endpoint == endpoint_) endpoint_ = (endpoint_ + 1) % endpoints_;
}

}  // namespace cpprun
