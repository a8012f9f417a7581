// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/fan_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "proto/state_machine.h"

namespace cpprun::fanout {

namespace {

constexpr int code_of_signal = 128;  // as in shells

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
  return {DialHosts{wanted_.members}};
}

FanOut::Actions FanOut::handle(TimePoint now, const Event& event) {
  Actions actions;
  if (phase_ == Phase::over) return actions;
  std::visit(Overloaded{
                 [&](const Up& message) { hear(now, message, actions); },
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
  DialHosts again;
  for (auto& [number, remote] : remotes_) {
    if (!remote.redial || now < *remote.redial || phase_ != Phase::running) continue;
    remote.redial.reset();
    remote.state = State::pending;
    again.members.push_back(remote.member);
  }
  if (!again.members.empty()) actions.push_back(std::move(again));
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

void FanOut::hear(TimePoint now, const Up& message, Actions& actions) {
  std::visit(Overloaded{
                 [&](const Here& m) { welcome(now, m, actions); },
                 [&](const Gone& m) { lose(now, m, actions); },
                 [&](const Words& m) { actions.push_back(Show{m}); },
                 [&](const Ended& m) { note_end(now, m, actions); }, [&](const Pong&) {},
                 [&](const Answer&) {},  // a job asks no questions
             },
             message);
}

void FanOut::welcome(TimePoint now, const Here& here, Actions& actions) {
  const auto at = remotes_.find(here.number);
  if (at == remotes_.end() || at->second.state != State::pending) return;
  RemoteHost& remote = at->second;
  remote.state = State::here;
  remote.here = here;
  if (phase_ == Phase::gathering) return begin_or_give_up(now, actions);
  if (phase_ != Phase::running) return;
  actions.push_back(Say{fmt::format("{} connected; joining the job", remote.member.name)});
  Begin begin = *begun_;
  begin.only = here.number;
  actions.push_back(TellHosts{begin});
}

void FanOut::lose(TimePoint now, const Gone& gone, Actions& actions) {
  const auto at = remotes_.find(gone.number);
  if (at == remotes_.end()) return;
  RemoteHost& remote = at->second;
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
  if (!wanted_.elastic || gone.number == begun_->master) return stop(now, SIGTERM, actions);
  redial_later(now, remote);
}

void FanOut::redial_later(TimePoint now, RemoteHost& remote) {
  remote.redial = now + remote.backoff;
  remote.backoff = std::min(remote.backoff * 2, redial_max);
}

void FanOut::note_end(TimePoint now, const Ended& ended, Actions& actions) {
  const auto at = remotes_.find(ended.number);
  if (at == remotes_.end() || at->second.state == State::ended) return;
  RemoteHost& remote = at->second;
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
  const bool is_last_word = !wanted_.elastic || ended.number == begun_->master;
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
      begun_ = Begin{-1, number, wanted_.address.empty() ? remote.here.address : wanted_.address,
                     wanted_.port == 0 ? remote.here.port : wanted_.port};
    }
    if (remote.state == State::gone) redial_later(now, remote);
  }
  actions.push_back(TellHosts{*begun_});
}

void FanOut::stop(TimePoint now, int signal, Actions& actions) {
  if (phase_ == Phase::over || killing_) return;
  if (phase_ != Phase::stopping) phase_.become(Phase::stopping);
  killing_ = signal == SIGKILL;
  deadline_ = now + (killing_ ? kill_timeout : wanted_.grace + agents_timeout);
  for (auto& [number, remote] : remotes_) remote.redial.reset();
  actions.push_back(TellHosts{Stop{signal}});
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

// --- a node of the tree --------------------------------------------------------------------------

FanOutNode::Actions FanOutNode::handle(TimePoint now, const Event& event) {
  Actions actions;
  std::visit(Overloaded{
                 [&](const Dial& e) { dial(now, e.members, actions); },
                 [&](const Tell& e) { tell(e.message, actions); },
                 [&](const Alive& e) {
                   if (const auto at = shells_.find(e.shell); at != shells_.end()) {
                     at->second.heard = now;
                   }
                 },
                 [&](const Ready& e) {
                   const auto at = shells_.find(e.shell);
                   if (at == shells_.end()) return;
                   Shell& shell = at->second;
                   shell.ready = true;
                   shell.heard = shell.pinged = now;
                   actions.push_back(SendTo{e.shell, Terms{shell.members, job_}});
                 },
                 [&](const Said& e) { take(now, e, actions); },
                 [&](const ShellEnded& e) { end(now, e, actions); },
             },
             event);
  return actions;
}

FanOutNode::Actions FanOutNode::advance(TimePoint now) {
  Actions actions;
  for (auto& [number, shell] : shells_) {
    if (shell.killed) continue;
    const Duration timeout = shell.ready ? silence_max : reach_timeout;
    if (!shell.has_arrived() && now - shell.dialed >= arrival_timeout) {
      kill(number, shell,
           fmt::format("no response from cpprun within {} s, only other output",
                       in_seconds(arrival_timeout)),
           actions);
    } else if (now - shell.heard >= timeout) {
      kill(number, shell, fmt::format("no response for {} s", in_seconds(timeout)), actions);
    } else if (shell.ready && now - shell.pinged >= ping_interval) {
      shell.pinged = now;
      actions.push_back(SendTo{number, Ping{}});
    }
  }
  return actions;
}

std::optional<TimePoint> FanOutNode::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [number, shell] : shells_) {
    if (shell.killed) continue;
    next = next ? std::min(*next, due(shell)) : due(shell);
  }
  return next;
}

TimePoint FanOutNode::due(const Shell& shell) {
  TimePoint due = shell.heard + (shell.ready ? silence_max : reach_timeout);
  if (shell.ready) due = std::min(due, shell.pinged + ping_interval);
  return shell.has_arrived() ? due : std::min(due, shell.dialed + arrival_timeout);
}

bool FanOutNode::Shell::has_arrived() const {
  const int head = members.front().number;
  return ready && (known.contains(head) || !open.contains(head));
}

std::optional<std::string> FanOutNode::check() const {
  if (shells_.size() > shells_max) return "more shells than a node may have";
  if (!waiting_.empty() && shells_.size() < shells_max)
    return "a member waits although a shell is free";
  for (const auto& [number, shell] : shells_) {
    if (shell.members.empty()) return "a shell without members";
  }
  return std::nullopt;
}

// Spreads the members over the free shells. Each shell's host is the root of a subtree of similar
// size.
void FanOutNode::dial(TimePoint now, std::vector<Member> members, Actions& actions) {
  waiting_.insert(waiting_.end(), std::make_move_iterator(members.begin()),
                  std::make_move_iterator(members.end()));
  const std::size_t places = std::min(shells_max - shells_.size(), waiting_.size());
  if (stopping_ || places == 0) return;
  members = std::exchange(waiting_, {});
  std::size_t begin = 0;
  for (std::size_t place = 0; place < places; ++place) {
    const std::size_t end = members.size() * (place + 1) / places;
    Shell shell;
    shell.dialed = shell.heard = now;
    for (; begin < end; ++begin) {
      shell.open.insert(members[begin].number);
      shell.members.push_back(std::move(members[begin]));
    }
    actions.push_back(Start{next_shell_, shell.members});
    shells_.emplace(next_shell_++, std::move(shell));
  }
}

void FanOutNode::tell(const Down& message, Actions& actions) {
  const auto* begin = std::get_if<Begin>(&message);
  if (std::holds_alternative<Stop>(message)) stopping_ = true;
  for (auto& [number, shell] : shells_) {
    if (begin != nullptr && begin->only >= 0 && !shell.open.contains(begin->only)) continue;
    if (shell.ready) {
      actions.push_back(SendTo{number, message});
    } else if (stopping_) {
      kill(number, shell, "the start was canceled before the host responded", actions);
    }
  }
  if (!stopping_) return;
  for (auto& member : std::exchange(waiting_, {})) {
    actions.push_back(
        Forward{Gone{member.number, "the start was canceled before the host responded"}});
  }
}

void FanOutNode::take(TimePoint now, const Said& said, Actions& actions) {
  const auto at = shells_.find(said.shell);
  if (at == shells_.end()) return;
  Shell& shell = at->second;
  shell.heard = now;
  if (std::holds_alternative<Pong>(said.message)) return;
  if (const auto* here = std::get_if<Here>(&said.message)) shell.known.insert(here->number);
  if (const auto* gone = std::get_if<Gone>(&said.message)) shell.open.erase(gone->number);
  if (const auto* ended = std::get_if<Ended>(&said.message)) shell.open.erase(ended->number);
  actions.push_back(Forward{said.message});
}

void FanOutNode::end(TimePoint now, const ShellEnded& ended, Actions& actions) {
  const auto at = shells_.find(ended.shell);
  if (at == shells_.end()) return;
  const Shell shell = std::move(at->second);
  shells_.erase(at);
  const std::string& why = shell.killed ? shell.why_killed : ended.reason;
  const Member& head = shell.members.front();
  const bool was_reached = shell.known.contains(head.number);
  std::vector<Member> again;
  for (const auto& member : shell.members) {
    if (!shell.open.contains(member.number)) continue;
    if (!was_reached && !stopping_ && member.number != head.number) {
      again.push_back(member);
    } else if (member.number == head.number) {
      actions.push_back(Forward{Gone{member.number, why}});
    } else {
      actions.push_back(Forward{
          Gone{member.number, fmt::format("lost the connection through {}: {}", head.name, why)}});
    }
  }
  dial(now, std::move(again), actions);
}

void FanOutNode::kill(int number, Shell& shell, std::string why, Actions& actions) {
  if (shell.killed) return;
  shell.killed = true;
  shell.why_killed = std::move(why);
  actions.push_back(Kill{number});
}

}  // namespace cpprun::fanout
