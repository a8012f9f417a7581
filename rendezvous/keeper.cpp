#include "rendezvous/keeper.h"

#include <fmt/format.h>

#include <utility>

namespace cpprun {

Keeper::Keeper(KeeperOptions options) : job_(std::move(options.job), options.options) {}

Keeper::Actions Keeper::handle(TimePoint now, const Event& event) {
  Actions actions;
  std::visit(
      Overloaded{
          [&](const Opened& opened) { newcomers_.emplace(opened.caller.link, opened.caller); },
          [&](const Said& event_said) { said(now, event_said, actions); },
          [&](const Closed& closed) {
            if (newcomers_.erase(closed.link) == 0) {
              job_.close(now, closed.link, closed.reason, actions);
            }
          },
      },
      event);
  empty_store(actions);
  return actions;
}

void Keeper::said(TimePoint now, const Said& event, Actions& actions) {
  const auto newcomer = newcomers_.find(event.link);
  if (newcomer == newcomers_.end()) {
    job_.hear(now, event.link, event.message, actions);
    return;
  }
  const Caller caller = newcomer->second;
  newcomers_.erase(newcomer);
  const auto* join = std::get_if<link::Join>(&event.message);
  if (join == nullptr) {
    actions.emplace_back(keeper::HangUp{event.link, "its first message was not a join"});
    return;
  }
  if (join->job != job_.terms().id) {
    const std::string reason = fmt::format(
        "this master runs job \"{}\", but {} came for job \"{}\": give every node the "
        "same --rdzv-id, and each job its own --master_port",
        job_.terms().id, join->host, join->job);
    actions.emplace_back(keeper::Say{event.link, link::Refused{reason}});
    actions.emplace_back(keeper::HangUp{event.link, reason});
    actions.emplace_back(keeper::Note{
        fmt::format("refused the node on {} ({}): {}", join->host, caller.peer, reason)});
    return;
  }
  job_.join(now, caller, *join, actions);
}

// The key space of a round is the round's: emptied in the same breath in which it is sealed.
void Keeper::empty_store(const Actions& actions) {
  for (const Action& action : actions) {
    if (std::holds_alternative<keeper::ResetStore>(action)) store_.clear();
  }
}

Keeper::Actions Keeper::advance(TimePoint now) {
  Actions actions;
  job_.advance(now, actions);
  empty_store(actions);
  return actions;
}

std::optional<TimePoint> Keeper::next_deadline() const {
  return job_.next_deadline();
}

}  // namespace cpprun
