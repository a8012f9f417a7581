// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/etcd_host.h"

#include <algorithm>
#include <utility>

namespace cpprun::sim {

using namespace std::chrono_literals;
using Kind = etcd::Failure::Kind;

namespace {

constexpr Duration etcd_gives_up = 7s;  // on a request that it cannot decide
constexpr Duration asked_again = 20ms;  // a member that cannot answer yet

}  // namespace

EtcdHost::EtcdHost(Universe& universe)
    : universe_(universe),
      random_(universe.scenario.seed, 71),
      etcd_({.members = universe.scenario.set->etcd_members}, universe.scenario.seed),
      judge_(keys()),
      cuts_(static_cast<std::size_t>(universe.scenario.set->daemons)) {}

Duration EtcdHost::delay() {
  const Duration usual = std::max(Duration{4ms}, universe_.scenario.delay_max);
  const bool is_slow = slow_until_ > universe_.time.now();
  return 200us + random_.up_to(is_slow ? Duration{1500ms} : usual);
}

void EtcdHost::cut(int who, TimePoint until) {
  TimePoint& cut = cuts_[static_cast<std::size_t>(who)];
  cut = std::max(cut, until);
}

void EtcdHost::ask(int who, const election::Ask& ask, TimePoint deadline,
                   std::function<void(const etcd::Heard&)> answered) {
  auto flight = std::make_shared<Flight>(Flight{who, ask, std::move(answered)});
  if (etcd_.is_crashed(static_cast<int>(ask.endpoint)) && !is_cut(who)) {
    universe_.time.later(1ms, [this, flight] {
      answer(flight, tl::unexpected(etcd::Failure{Kind::unreachable, "connection refused"}));
    });
    return;
  }
  universe_.time.at(deadline, [this, flight] {
    answer(flight, tl::unexpected(etcd::Failure{Kind::silent, "no response"}));
  });
  send(flight);
}

// A request sent into a cut is lost, or arrives after the cut.
void EtcdHost::send(const std::shared_ptr<Flight>& flight) {
  TimePoint when = universe_.time.now() + delay();
  if (is_cut(flight->who)) {
    if (random_.chance(0.5)) return;
    when = cuts_[static_cast<std::size_t>(flight->who)] + random_.up_to(1s);
  }
  universe_.time.at(when, [this, flight] {
    flight->arrived = universe_.time.now();
    arrive(flight);
  });
}

void EtcdHost::arrive(const std::shared_ptr<Flight>& flight) {
  const TimePoint now = universe_.time.now();
  const int member = static_cast<int>(flight->ask.endpoint);
  auto heard = etcd_.ask(now, member, flight->ask.request);
  // Recorded before the response, which may be lost.
  if (etcd_.decided()) {
    judge_.decided(now, flight->who, std::get<etcd::Transaction>(flight->ask.request),
                   *etcd_.decided());
  }
  if (!heard && now < flight->arrived + etcd_gives_up && !etcd_.is_crashed(member)) {
    universe_.time.later(asked_again, [this, flight] { arrive(flight); });
    return;
  }
  if (!heard) {
    heard = tl::unexpected(etcd::Failure{Kind::unavailable, "etcdserver: request timed out"});
  }
  if (is_cut(flight->who)) return;
  universe_.time.later(delay(),
                       [this, flight, heard = *std::move(heard)] { answer(flight, heard); });
}

void EtcdHost::answer(const std::shared_ptr<Flight>& flight, const etcd::Heard& heard) {
  if (!std::exchange(flight->is_answered, true)) flight->answered(heard);
  if (!judge_.objection().empty()) universe_.judge.must(false, "etcd " + judge_.objection());
}

// --- faults --------------------------------------------------------------------------------------

void EtcdHost::commit(const Fault& fault) {
  const TimePoint now = universe_.time.now();
  etcd_.advance(now);
  // Its leader half of the time.
  const int drawn = fault.value / 12 % etcd_.members();
  const int member = fault.value / 6 % 2 == 0 ? etcd_.leader().value_or(drawn) : drawn;
  const auto later = [this, &fault](std::function<void()> what) {
    universe_.time.later(fault.lasts, [this, what = std::move(what)] {
      etcd_.advance(universe_.time.now());
      what();
    });
  };
  switch (fault.value % 6) {
    case 0:
      etcd_.stop(now, member);
      return later([this, member] { etcd_.go_on(universe_.time.now(), member); });
    case 1:
      etcd_.cut(now, member, true);
      return later([this, member] { etcd_.cut(universe_.time.now(), member, false); });
    case 2:
      etcd_.crash(now, member);
      return later([this, member] { etcd_.begin_again(universe_.time.now(), member); });
    case 3:
      return etcd_.elect_another(now);
    case 4:
      etcd_.fill(true);
      return later([this] { etcd_.fill(false); });
    default:
      slow_until_ = std::max(slow_until_, now + fault.lasts);
  }
}

}  // namespace cpprun::sim
