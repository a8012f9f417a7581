// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/fan_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>
#include <utility>

#include "proto/state_machine.h"

namespace cpprun::fanout {

namespace {

constexpr int code_of_signal = 128;  // as in shells
constexpr std::string_view canceled = "the start was canceled before the host responded";

}  // namespace

FanOut::FanOut(Wanted wanted)
    : wanted_(std::move(wanted)), phase_(Phase::gathering, [] {
        static constexpr std::array<PhaseStep<Phase>, 5> steps = {{
            {Phase::gathering, Phase::running},
            {Phase::gathering, Phase::stopping},
            {Phase::running, Phase::stopping},
            {Phase::running, Phase::over},
            {Phase::stopping, Phase::over},
        }};
        return PhaseOf<Phase>::Steps(steps);
      }()) {
  for (const auto& member : wanted_.members) remotes_[member.number].member = member;
}

FanOut::Actions FanOut::start() {
  return {Dial{wanted_.members}};
}

FanOut::Actions FanOut::handle(TimePoint now, const Event& event) {
  Actions actions;
  if (phase_ == Phase::over) return actions;
  std::visit(Overloaded{
                 [&](const Said& said) { hear(now, said, actions); },
                 [&](const Interrupted& e) {
                   // The second signal means: stop at once.
                   const bool again = interrupted_ != 0;
                   interrupted_ = e.signal;
                   stop(now, again ? SIGKILL : e.signal, actions);
                 },
             },
             event);
  finish_if_over(actions);
  return actions;
}

FanOut::Actions FanOut::advance(TimePoint now) {
  Actions actions;
  if (deadline_ && now >= *deadline_) {
    if (phase_ == Phase::running) {
      actions.push_back(Say{"the other hosts have not exited in time; stopping them", true});
      stop(now, SIGTERM, actions);
    } else if (!killing_) {
      stop(now, SIGKILL, actions);
    } else {
      deadline_.reset();
      for (auto& [number, remote] : remotes_) {
        if (remote.state != State::here && remote.state != State::pending) continue;
        remote.state = State::gone;
        remote.reason = "no exit code received";
        actions.push_back(Say{fmt::format("{}: {}", remote.member.name, remote.reason), true});
      }
    }
  }
  Dial again;
  for (auto& [number, remote] : remotes_) {
    if (!remote.redial || now < *remote.redial || phase_ != Phase::running) continue;
    remote.redial.reset();
    remote.state = State::pending;
    again.hosts.push_back(remote.member);
  }
  if (!again.hosts.empty()) actions.push_back(std::move(again));
  finish_if_over(actions);
  return actions;
}

std::optional<TimePoint> FanOut::next_deadline() const {
  if (phase_ == Phase::over) return std::nullopt;
  auto next = deadline_;
  for (const auto& [number, remote] : remotes_) {
    if (!remote.redial || phase_ != Phase::running) continue;
    next = next ? std::min(*next, *remote.redial) : *remote.redial;
  }
  return next;
}

std::optional<std::string> FanOut::check() const {
  if (phase_ == Phase::gathering && count(State::pending) == 0) return "no host is pending";
  if (phase_ == Phase::running && !begun_) return "the job is running, but was never started";
  for (const auto& [number, remote] : remotes_) {
    if (remote.redial && remote.state != State::gone)
      return "a connected host is to be dialed again";
  }
  return std::nullopt;
}

void FanOut::hear(TimePoint now, const Said& said, Actions& actions) {
  const auto at = remotes_.find(said.host);
  if (at == remotes_.end()) return;
  RemoteHost& remote = at->second;
  std::visit(Overloaded{
                 [&](const Here& m) { welcome(now, remote, m, actions); },
                 [&](const Gone& m) { lose(now, remote, m, actions); },
                 [&](const Words& m) {
                   actions.push_back(Show{said.host, m});
                 },
                 [&](const Ended& m) { note_end(now, remote, m, actions); }, [&](const Pong&) {},
                 [&](const Answer&) {},  // a job asks no questions
             },
             said.message);
}

void FanOut::welcome(TimePoint now, RemoteHost& remote, const Here& here, Actions& actions) {
  if (remote.state != State::pending) return;
  remote.state = State::here;
  remote.here = here;
  if (phase_ == Phase::gathering) return begin_or_give_up(now, actions);
  if (phase_ != Phase::running) return;
  actions.push_back(Say{fmt::format("{} connected; joining the job", remote.member.name)});
  actions.push_back(Tell{*begun_, remote.member.number});
}

void FanOut::lose(TimePoint now, RemoteHost& remote, const Gone& gone, Actions& actions) {
  if (remote.state == State::gone || remote.state == State::ended) return;
  const bool was_here = remote.state == State::here;
  remote.state = State::gone;
  remote.reason = gone.reason;
  if (phase_ == Phase::gathering) return begin_or_give_up(now, actions);
  if (phase_ != Phase::running) return;
  if (was_here) {
    remote.backoff = redial_first;
    actions.push_back(Say{fmt::format("lost {}: {}", remote.member.name, gone.reason), true});
  }
  if (!wanted_.elastic || remote.member.number == begun_->master) {
    return stop(now, SIGTERM, actions);
  }
  redial_later(now, remote);
}

void FanOut::redial_later(TimePoint now, RemoteHost& remote) {
  remote.redial = now + remote.backoff;
  remote.backoff = std::min(remote.backoff * 2, redial_max);
}

void FanOut::note_end(TimePoint now, RemoteHost& remote, const Ended& ended, Actions& actions) {
  if (remote.state == State::ended) return;
  remote.state = State::ended;
  remote.redial.reset();
  remote.code = ended.code;
  remote.ran = ended.ran;
  if (phase_ == Phase::gathering) {
    remote.state = State::gone;
    remote.reason = fmt::format("cpprun exited with code {}", ended.code);
    return begin_or_give_up(now, actions);
  }
  if (phase_ != Phase::running) return;
  if (ended.code != 0 && !ended.ran && !wanted_.is_rehearsal) {
    // The others would wait for it until their join timeout.
    actions.push_back(Say{
        fmt::format("cpprun could not start on {}; stopping the other hosts", remote.member.name),
        true});
    return stop(now, SIGTERM, actions);
  }
  // An agent ends with its job, so the others are about to end as well.
  const bool is_last_word = !wanted_.elastic || remote.member.number == begun_->master;
  if (is_last_word && !deadline_) deadline_ = now + wanted_.grace + agents_timeout;
}

// Acts once all hosts have answered or timed out.
void FanOut::begin_or_give_up(TimePoint now, Actions& actions) {
  if (count(State::pending) != 0) return;
  const int here = count(State::here);
  const bool enough = here >= wanted_.nodes_min && here > 0;
  const bool all = here == static_cast<int>(remotes_.size());
  if (!all) list_gone(actions);
  if (all || (wanted_.elastic && enough)) return begin_job(now, actions);
  actions.push_back(Say{
      fmt::format("nothing was started: only {} of {} hosts can be reached", here, remotes_.size()),
      true});
  stop(now, SIGTERM, actions);
}

void FanOut::begin_job(TimePoint now, Actions& actions) {
  phase_.become(Phase::running);
  for (auto& [number, remote] : remotes_) {
    if (remote.state == State::here && !begun_) {
      begun_ = Begin{number, wanted_.address.empty() ? remote.here.address : wanted_.address,
                     wanted_.port == 0 ? remote.here.port : wanted_.port};
    }
    if (remote.state == State::gone) redial_later(now, remote);
  }
  actions.push_back(Tell{*begun_});
}

void FanOut::stop(TimePoint now, int signal, Actions& actions) {
  if (phase_ == Phase::over || killing_) return;
  if (phase_ != Phase::stopping) phase_.become(Phase::stopping);
  killing_ = signal == SIGKILL;
  deadline_ = now + (killing_ ? kill_timeout : wanted_.grace + agents_timeout);
  for (auto& [number, remote] : remotes_) remote.redial.reset();
  actions.push_back(Tell{Stop{signal}});
}

void FanOut::finish_if_over(Actions& actions) {
  if (phase_ == Phase::over || phase_ == Phase::gathering) return;
  if (count(State::pending) + count(State::here) > 0) return;
  phase_.become(Phase::over);
  deadline_.reset();
  actions.push_back(Finish{exit_code()});
}

// A single list, so that the user can fix all of them at once.
void FanOut::list_gone(Actions& actions) const {
  std::string lines;
  for (const auto& [number, remote] : remotes_) {
    if (remote.state != State::gone) continue;
    lines += fmt::format("\n  {}: {}", remote.member.name, remote.reason);
  }
  actions.push_back(Say{fmt::format("{} of {} hosts cannot be reached:{}", count(State::gone),
                                    remotes_.size(), lines),
                        true});
}

int FanOut::count(State state) const {
  return static_cast<int>(std::count_if(remotes_.begin(), remotes_.end(), [&](const auto& each) {
    return each.second.state == state;
  }));
}

int FanOut::exit_code() const {
  if (!begun_) return interrupted_ != 0 ? code_of_signal + interrupted_ : 1;
  // Prefer the code of a host that could not start: the others only show the signal that stopped
  // them because of it.
  for (const auto& [number, remote] : remotes_) {
    if (remote.state == State::ended && remote.code != 0 && !remote.ran) return remote.code;
  }
  const auto master = remotes_.find(begun_->master);
  if (master->second.state == State::ended && (wanted_.elastic || master->second.code != 0)) {
    return master->second.code;
  }
  for (const auto& [number, remote] : remotes_) {
    if (remote.state == State::ended && remote.code != 0) return remote.code;
  }
  const bool lost = count(State::gone) > 0;
  if (lost && interrupted_ != 0) return code_of_signal + interrupted_;
  return lost ? 1 : 0;
}

// --- the remote shells ---------------------------------------------------------------------------

HostShells::Actions HostShells::handle(TimePoint now, const Event& event) {
  Actions actions;
  std::visit(
      Overloaded{
          [&](const Dial& e) { waiting_.insert(waiting_.end(), e.hosts.begin(), e.hosts.end()); },
          [&](const Tell& e) { tell(e, actions); },
          [&](const Alive& e) {
            if (const auto at = shells_.find(e.host); at != shells_.end()) {
              at->second.heard = now;
            }
          },
          [&](const Ready& e) {
            const auto at = shells_.find(e.host);
            if (at == shells_.end()) return;
            Shell& shell = at->second;
            shell.ready = true;
            shell.heard = shell.pinged = now;
            actions.push_back(SendTo{e.host, Terms{shell.host, job_}});
          },
          [&](const Said& e) { take(now, e, actions); },
          [&](const ShellEnded& e) { end(e, actions); },
      },
      event);
  dial_waiting(now, actions);
  return actions;
}

HostShells::Actions HostShells::advance(TimePoint now) {
  Actions actions;
  for (auto& [number, shell] : shells_) {
    if (shell.why_killed) continue;
    const Duration timeout = shell.ready ? silence_max : reach_timeout;
    if (!shell.arrived && now - shell.dialed >= arrival_timeout) {
      kill(shell,
           fmt::format("no response from cpprun within {} s, only other output",
                       in_seconds(arrival_timeout)),
           actions);
    } else if (now - shell.heard >= timeout) {
      kill(shell, fmt::format("no response for {} s", in_seconds(timeout)), actions);
    } else if (shell.ready && now - shell.pinged >= ping_interval) {
      shell.pinged = now;
      actions.push_back(SendTo{number, Ping{}});
    }
  }
  return actions;
}

std::optional<TimePoint> HostShells::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [number, shell] : shells_) {
    if (shell.why_killed) continue;
    next = next ? std::min(*next, due(shell)) : due(shell);
  }
  return next;
}

TimePoint HostShells::due(const Shell& shell) {
  TimePoint due = shell.heard + (shell.ready ? silence_max : reach_timeout);
  if (shell.ready) due = std::min(due, shell.pinged + ping_interval);
  return shell.arrived ? due : std::min(due, shell.dialed + arrival_timeout);
}

std::optional<std::string> HostShells::check() const {
  if (dialing() > at_a_time_) return "too many hosts are dialed at a time";
  const bool is_free = dialing() < at_a_time_;
  for (const auto& host : waiting_) {
    if (is_free && !shells_.contains(host.number)) return "a host waits although a dial is free";
  }
  return std::nullopt;
}

std::size_t HostShells::dialing() const {
  return static_cast<std::size_t>(std::count_if(
      shells_.begin(), shells_.end(), [](const auto& each) { return !each.second.arrived; }));
}

void HostShells::dial_waiting(TimePoint now, Actions& actions) {
  if (waiting_.empty()) return;
  if (stopping_) {
    for (const auto& host : std::exchange(waiting_, {})) {
      actions.push_back(Said{host.number, Gone{std::string(canceled)}});
    }
    return;
  }
  std::size_t free = at_a_time_ - dialing();
  std::erase_if(waiting_, [&](const Member& host) {
    if (free == 0 || shells_.contains(host.number)) return false;
    --free;
    actions.push_back(Start{host});
    shells_.emplace(host.number, Shell{.host = host, .dialed = now, .heard = now});
    return true;
  });
}

void HostShells::tell(const Tell& told, Actions& actions) {
  if (std::holds_alternative<Stop>(told.message)) stopping_ = true;
  for (auto& [number, shell] : shells_) {
    if (number != told.only.value_or(number)) continue;
    if (shell.ready) {
      actions.push_back(SendTo{number, told.message});
    } else if (stopping_) {
      kill(shell, std::string(canceled), actions);
    }
  }
}

void HostShells::take(TimePoint now, const Said& said, Actions& actions) {
  const auto at = shells_.find(said.host);
  if (at == shells_.end()) return;
  Shell& shell = at->second;
  shell.heard = now;
  if (std::holds_alternative<Pong>(said.message)) return;
  if (std::holds_alternative<Gone>(said.message) || std::holds_alternative<Ended>(said.message)) {
    shell.over = true;
  }
  if (shell.over || std::holds_alternative<Here>(said.message)) shell.arrived = true;
  actions.push_back(said);
}

void HostShells::end(const ShellEnded& ended, Actions& actions) {
  const auto at = shells_.find(ended.host);
  if (at == shells_.end()) return;
  const Shell shell = std::move(at->second);
  shells_.erase(at);
  if (!shell.over) {
    actions.push_back(Said{ended.host, Gone{shell.why_killed.value_or(ended.reason)}});
  }
}

void HostShells::kill(Shell& shell, std::string why, Actions& actions) {
  if (shell.why_killed) return;
  shell.why_killed = std::move(why);
  actions.push_back(Kill{shell.host.number});
}

}  // namespace cpprun::fanout
