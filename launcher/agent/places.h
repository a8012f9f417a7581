// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the cppruns of a set are met, of which one leads, and whom to ask next for the one that
// does: each of them once in a turn. Knows no time and no link.

#include <optional>
#include <vector>

#include "launcher/endpoint.h"

namespace cpprun {

class Places {
 public:
  // As flags name them: one, or several.
  Places(const Endpoint& first, std::vector<Endpoint> named);

  bool several() const { return all().size() > 1; }
  // Each once, in the order in which they are asked: the one that led last comes first.
  std::vector<Endpoint> all() const;
  // The one that was asked last.
  const Endpoint& at() const { return at_; }
  // Whom to ask now. A turn in which nobody is left is followed by another.
  const Endpoint& next();
  // How many turns have ended since somebody led.
  int turns() const { return turns_; }

  // The one at at() leads; or has said so, and does not.
  void leads();
  void leads_no_more();
  // It has said where the others are.
  void told(std::vector<Endpoint> others) { told_ = std::move(others); }
  // It has said that this one leads: it is the next, if it was not asked in this turn. So two that
  // name each other are asked once in a turn.
  void hint(const Endpoint& there);
  // There is no link to it any more, or none could be made. One that led is asked first once more,
  // unless it fell silent. Whether it is too early to ask the next one at once.
  bool lost(bool fell_silent);

 private:
  bool was_asked(const Endpoint& place) const;
  std::optional<Endpoint> left() const;
  void begin_turn();

  std::vector<Endpoint> named_;
  std::vector<Endpoint> told_;
  std::optional<Endpoint> hinted_;
  Endpoint led_last_;
  Endpoint at_;
  bool leads_ = false;           // the one at at_
  std::vector<Endpoint> asked_;  // in this turn
  int hints_ = 0;                // in this turn
  int turns_ = 0;
};

}  // namespace cpprun
