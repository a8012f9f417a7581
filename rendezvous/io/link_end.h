// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One end of a link, as its user sees it: LinkChannel if it was accepted, LinkClient if it was
// dialled, or the substitute of a simulated world.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "proto/link/message.h"

namespace cpprun {

struct LinkCallbacks {
  std::function<void(link::Message)> message;
  // The same for frames that are no messages (binary_frame.h), without their lengths. A returned
  // reason ends the link; empty: they may. Where it is not given, they may not.
  std::function<std::string(std::string_view frame)> streams = {};
  // Everything said has left, after the socket had taken less than all: has_room() again.
  std::function<void()> room = {};
  // Called with the number of bytes that wait in either direction, whenever it changes. A
  // returned reason ends the link; empty: they may.
  std::function<std::string(std::size_t bytes)> holds = {};
  // Called once, when either side has ended the link. Never from inside a call of ours.
  std::function<void(std::string reason)> closed;
};

class LinkEnd {
 public:
  virtual ~LinkEnd() = default;
  // Replaces the callbacks of a link that has started. Not from within a callback.
  virtual void listen(LinkCallbacks callbacks) = 0;
  virtual void send(const link::Message& message) = 0;
  virtual void send_bytes(std::string_view bytes) = 0;
  // Nothing waits for the socket: what can be said later had better be said now.
  virtual bool has_room() const = 0;
  // Ends the link once everything said has left.
  virtual void hang_up(std::string reason) = 0;
  // No callback is called from here on.
  virtual void forget() = 0;
};

struct DialCallbacks {
  // Both sides have greeted. `local_address` is where the link leaves this machine.
  std::function<void(std::string local_address)> up;
  std::function<void(link::Message)> message;
  // See LinkCallbacks.
  std::function<std::string(std::string_view frame)> streams = {};
  std::function<void()> room = {};
  // The attempt failed, or the link ended; a clause.
  std::function<void(std::string reason)> down;
};

// Of a place that is dialled as often as its owner wants.
class DialledLink {
 public:
  virtual ~DialledLink() = default;
  // One attempt; ends whatever link or attempt there was, silently. Answers with `up` or `down`.
  virtual void dial_once() = 0;
  virtual void send(const link::Message& message) = 0;
  virtual void send_bytes(std::string_view bytes) = 0;
  // Ends the link once everything said has left, or the attempt. `down` is not called for it.
  virtual void hang_up() = 0;
};

}  // namespace cpprun
