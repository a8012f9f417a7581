// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/branch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/state_machine.h"

namespace cpprun::fanout {

Branch::Actions Branch::handle(TimePoint now, const Event& event) {
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
                   actions.push_back(Give{e.shell, Terms{shell.members, job_}});
                 },
                 [&](const Said& e) { take(now, e, actions); },
                 [&](const ShellEnded& e) { end(now, e, actions); },
             },
             event);
  return actions;
}

Branch::Actions Branch::advance(TimePoint now) {
  Actions actions;
  for (auto& [number, shell] : shells_) {
    if (shell.killed) continue;
    const Duration patience = shell.ready ? silence_max : reach_patience;
    if (!shell.has_arrived() && now - shell.dialed >= arrival_patience) {
      kill(number, shell,
           fmt::format("no response from cpprun within {} s, only other output",
                       in_seconds(arrival_patience)),
           actions);
    } else if (now - shell.heard >= patience) {
      kill(number, shell, fmt::format("no response for {} s", in_seconds(patience)), actions);
    } else if (shell.ready && now - shell.pinged >= ping_interval) {
      shell.pinged = now;
      actions.push_back(Give{number, Ping{}});
    }
  }
  return actions;
}

std::optional<TimePoint> Branch::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [number, shell] : shells_) {
    if (shell.killed) continue;
    next = next ? std::min(*next, due(shell)) : due(shell);
  }
  return next;
}

TimePoint Branch::due(const Shell& shell) {
  TimePoint due = shell.heard + (shell.ready ? silence_max : reach_patience);
  if (shell.ready) due = std::min(due, shell.pinged + ping_interval);
  return shell.has_arrived() ? due : std::min(due, shell.dialed + arrival_patience);
}

bool Branch::Shell::has_arrived() const {
  const int head = members.front().number;
  return ready && (known.contains(head) || !open.contains(head));
}

std::optional<std::string> Branch::check() const {
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
void Branch::dial(TimePoint now, std::vector<Member> members, Actions& actions) {
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

void Branch::tell(const Down& message, Actions& actions) {
  const auto* begin = std::get_if<Begin>(&message);
  if (std::holds_alternative<Stop>(message)) stopping_ = true;
  for (auto& [number, shell] : shells_) {
    if (begin != nullptr && begin->only >= 0 && !shell.open.contains(begin->only)) continue;
    if (shell.ready) {
      actions.push_back(Give{number, message});
    } else if (stopping_) {
      kill(number, shell, "the start was canceled before the host responded", actions);
    }
  }
  if (!stopping_) return;
  for (auto& member : std::exchange(waiting_, {})) {
    actions.push_back(
        Pass{Gone{member.number, "the start was canceled before the host responded"}});
  }
}

void Branch::take(TimePoint now, const Said& said, Actions& actions) {
  const auto at = shells_.find(said.shell);
  if (at == shells_.end()) return;
  Shell& shell = at->second;
  shell.heard = now;
  if (std::holds_alternative<Pong>(said.message)) return;
  if (const auto* here = std::get_if<Here>(&said.message)) shell.known.insert(here->number);
  if (const auto* gone = std::get_if<Gone>(&said.message)) shell.open.erase(gone->number);
  if (const auto* ended = std::get_if<Ended>(&said.message)) shell.open.erase(ended->number);
  actions.push_back(Pass{said.message});
}

void Branch::end(TimePoint now, const ShellEnded& ended, Actions& actions) {
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
      actions.push_back(Pass{Gone{member.number, why}});
    } else {
      actions.push_back(Pass{
          Gone{member.number, fmt::format("lost the connection through {}: {}", head.name, why)}});
    }
  }
  dial(now, std::move(again), actions);
}

void Branch::kill(int number, Shell& shell, std::string why, Actions& actions) {
  if (shell.killed) return;
  shell.killed = true;
  shell.why_killed = std::move(why);
  actions.push_back(Kill{number});
}

}  // namespace cpprun::fanout
