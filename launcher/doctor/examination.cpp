// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/examination.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "proto/state_machine.h"

namespace cpprun::doctor {

std::vector<Target> others_of(int number, const std::vector<Target>& all) {
  std::vector<Target> others;
  const auto self = std::ranges::find(all, number, &Target::number);
  if (self == all.end()) return others;
  const auto place = static_cast<std::size_t>(self - all.begin());
  const auto count = std::min<std::size_t>(others_max, all.size() - 1);
  for (std::size_t step = 1; step <= count; ++step) {
    others.push_back(all[(place + step) % all.size()]);
  }
  const bool has_first =
      place == 0 || std::ranges::find(others, all.front().number, &Target::number) != others.end();
  if (!has_first) others.push_back(all.front());
  return others;
}

namespace {

constexpr int code_of_signal = 128;  // as in shells

// As in NTP: assumes that both directions take the same time.
ClockOffset clock_of(const HostFacts& facts, WallTime asked, WallTime heard) {
  const Duration there = facts.asked - asked;
  const Duration back = facts.answered - heard;
  const Duration way = (heard - asked) - (facts.answered - facts.asked);
  return {.offset = (there + back) / 2, .error = std::max(way / 2, Duration{})};
}

// "user@gpu1" becomes "gpu1".
std::string name_of(const std::string& member) {
  return member.substr(member.find('@') + 1);
}

}  // namespace

Examination::Examination(const std::vector<fanout::Member>& members, int port,
                         const ClockPair& clocks)
    : port_(port), clocks_(clocks), phase_(Phase::calling, [] {
        static constexpr std::array<PhaseStep<Phase>, 7> steps = {{
            {Phase::calling, Phase::asking},
            {Phase::calling, Phase::ending},
            {Phase::asking, Phase::dialing},
            {Phase::asking, Phase::ending},
            {Phase::dialing, Phase::ending},
            {Phase::ending, Phase::over},
            {Phase::calling, Phase::over},
        }};
        return PhaseOf<Phase>::Steps(steps);
      }()) {
  for (const auto& member : members) remotes_[member.number].host.member = member;
}

Examination::Actions Examination::start() {
  fanout::Dial dial;
  for (const auto& [number, remote] : remotes_) dial.hosts.push_back(remote.host.member);
  return {std::move(dial)};
}

Examination::Actions Examination::handle(TimePoint now, const Event& event) {
  Actions actions;
  if (phase_ == Phase::over) return actions;
  std::visit(Overloaded{
                 [&](const fanout::Said& said) { hear(now, said); },
                 [&](const fanout::Interrupted& e) {
                   interrupted_ = e.signal;
                   if (phase_ != Phase::ending) return end(now, actions);
                   // The second signal means: stop at once.
                   for (auto& [number, remote] : remotes_) remote.is_awaited = false;
                 },
             },
             event);
  go_on(now, actions);
  return actions;
}

Examination::Actions Examination::advance(TimePoint now) {
  Actions actions;
  if (phase_ == Phase::over || !deadline_ || now < *deadline_) return actions;
  for (auto& [number, remote] : remotes_) {
    if (!std::exchange(remote.is_awaited, false) || phase_ == Phase::ending) continue;
    remote.host.gone =
        phase_ == Phase::asking ? "no response in time" : "no results of its connections in time";
  }
  go_on(now, actions);
  return actions;
}

std::optional<TimePoint> Examination::next_deadline() const {
  return phase_ == Phase::over ? std::nullopt : deadline_;
}

std::optional<std::string> Examination::check() const {
  if (phase_ != Phase::over && !is_awaited()) return "no host is awaited";
  return std::nullopt;
}

std::vector<ExaminedHost> Examination::hosts() const {
  std::vector<ExaminedHost> hosts;
  for (const auto& [number, remote] : remotes_) hosts.push_back(remote.host);
  return hosts;
}

void Examination::hear(TimePoint now, const fanout::Said& said) {
  const auto at = remotes_.find(said.host);
  if (at == remotes_.end()) return;
  RemoteHost& remote = at->second;
  std::visit(Overloaded{
                 [&](const fanout::Here& m) {
                   if (phase_ != Phase::calling) return;
                   remote.is_here = true;
                   remote.is_awaited = false;
                   remote.host.address = m.address;
                 },
                 [&](const fanout::Gone& m) {
                   // While ending, we stopped it ourselves.
                   if (phase_ != Phase::ending) remote.host.gone = m.reason;
                   remote.is_here = remote.is_awaited = false;
                 },
                 [&](const fanout::Ended&) {
                   if (phase_ != Phase::ending) remote.host.gone = "cpprunctl exited there";
                   remote.is_here = remote.is_awaited = false;
                 },
                 [&](const fanout::Answer& m) { answer(now, remote, m); },
                 [](const fanout::Words&) {},  // shell output; Gone has the reason
                 [](const fanout::Pong&) {},
             },
             said.message);
}

void Examination::answer(TimePoint now, RemoteHost& remote, const fanout::Answer& answer) {
  if (!remote.is_awaited) return;
  auto reading = read_reading(answer.text);
  remote.is_awaited = false;
  if (!reading) {
    remote.host.gone = reading.error().reason;
    return;
  }
  if (const auto* facts = std::get_if<HostFacts>(&*reading); facts && phase_ == Phase::asking) {
    remote.host.clock = clock_of(*facts, asked_, clocks_.by_wall(now));
    remote.host.facts = *facts;
  } else if (auto* dialed = std::get_if<std::vector<Dialed>>(&*reading);
             dialed && phase_ == Phase::dialing) {
    remote.host.dialed = std::move(*dialed);
  } else {
    remote.is_awaited =
        true;  // an answer to an earlier question; the current one is still expected
  }
}

// Enters the next phase once all hosts are done with the current one.
void Examination::go_on(TimePoint now, Actions& actions) {
  while (phase_ != Phase::over && !is_awaited()) {
    const bool is_any_here =
        std::ranges::any_of(remotes_, [](const auto& each) { return each.second.is_here; });
    if (phase_ == Phase::ending || (phase_ == Phase::calling && !is_any_here)) {
      phase_.become(Phase::over);
      deadline_.reset();
      actions.emplace_back(fanout::Finish{interrupted_ == 0 ? 0 : code_of_signal + interrupted_});
    } else if (phase_ == Phase::dialing || !is_any_here) {
      end(now, actions);
    } else if (phase_ == Phase::calling) {
      begin(Phase::asking, now);
      asked_ = clocks_.by_wall(now);
      actions.emplace_back(fanout::Tell{fanout::Ask{to_json(Question{AskFacts{port_}})}});
    } else {
      begin(Phase::dialing, now);
      const auto all = targets();
      for (const auto& [number, remote] : remotes_) {
        if (!remote.is_here) continue;
        const Question question = AskDial{others_of(number, all)};
        actions.emplace_back(fanout::Tell{fanout::Ask{to_json(question)}, number});
      }
    }
  }
}

void Examination::begin(Phase phase, TimePoint now) {
  phase_.become(phase);
  deadline_ = now + answer_timeout;
  for (auto& [number, remote] : remotes_) remote.is_awaited = remote.is_here;
}

// Stops waiting for hosts that have not answered and tells all hosts to stop.
void Examination::end(TimePoint now, Actions& actions) {
  phase_.become(Phase::ending);
  deadline_ = now + end_timeout;
  for (auto& [number, remote] : remotes_) remote.is_awaited = remote.is_awaited || remote.is_here;
  actions.emplace_back(fanout::Tell{fanout::Stop{SIGTERM}});
}

bool Examination::is_awaited() const {
  return std::ranges::any_of(remotes_, [](const auto& each) { return each.second.is_awaited; });
}

std::vector<Target> Examination::targets() const {
  std::vector<Target> targets;
  for (const auto& [number, remote] : remotes_) {
    const auto& host = remote.host;
    if (!host.facts) continue;
    targets.push_back({.number = number,
                       .name = name_of(host.member.name),
                       .address = host.address,
                       .port = host.facts->port,
                       .greeting = host.facts->greeting});
  }
  return targets;
}

}  // namespace cpprun::doctor
