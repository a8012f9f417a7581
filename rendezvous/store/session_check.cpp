// SPDX-License-Identifier: BSD-3-Clause
// What must hold of sessions between two turns; simulated and explored runs ask for it after each.

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/store/store_sessions.h"

namespace cpprun {

std::optional<std::string> StoreSessions::check() const {
  if (next_action_ < actions_.size()) return std::nullopt;  // half done
  if (gathered_for_.value != 0 || !replies_.empty()) return "replies that nobody is to write";
  if (served_.value != 0 || !last_reason_.empty()) return "a visit without an end";
  for (const Session& session : table_.slots()) {
    if (session.id.value == 0 || session.is_doomed) continue;
    if (auto broken = check(session)) return broken;
  }
  return std::nullopt;
}

// Nobody is forgotten: whoever has something to be decided or to be sent stands in a line or waits
// for its socket.
std::optional<std::string> StoreSessions::check(const Session& session) const {
  const auto of = [&session](const char* what) {
    return fmt::format("connection {} {}", session.id.value, what);
  };
  const bool has_outbox = session.backlog != nullptr && !session.backlog->outbox.empty();
  if (session.awaits_writable && !has_outbox) return of("waits to be sent nothing");
  if (has_outbox && !session.awaits_writable && !session.is_queued_to_send) {
    return of("has replies that nobody sends");
  }
  if (session.is_paused && !session.awaits_writable) return of("is paused for ever");
  if (session.is_paused && !session.is_timed) return of("may stall for ever");
  if (session.awaits_turn && std::ranges::find(to_decide_, session.id) == to_decide_.end()) {
    return of("waits for a turn that does not come");
  }
  if (session.backlog == nullptr) return std::nullopt;
  const Backlog& backlog = *session.backlog;
  const bool is_left = backlog.inbox.size() >= std::max<std::size_t>(backlog.inbox_needed, 1);
  const bool is_held =
      session.awaits_turn || session.is_paused || (long_ && long_->from == session.id);
  if (session.speaks == Speaks::store && is_left && !is_held && !is_replayed(session)) {
    return of("has requests that nobody decides");
  }
  return std::nullopt;
}

}  // namespace cpprun
