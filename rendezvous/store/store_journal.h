// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who is told what the clients of one port say and what is decided of it, in that order, so that
// another store can be brought to the same state (store_log.h). None of it fails: where something
// cannot be kept, whoever keeps it knows.

#include <cstddef>
#include <string_view>

#include "proto/ids.h"

namespace cpprun {

class StoreJournal {
 public:
  virtual ~StoreJournal() = default;
  // That client has said so much.
  virtual void read(ConnectionId client, std::string_view bytes) noexcept = 0;
  // The next so many bytes of it are a request, and were decided.
  virtual void decided(ConnectionId client, std::size_t count) noexcept = 0;
  // The same of one whose answer another store might put in another order.
  virtual void listed(ConnectionId client, std::size_t count, std::string_view reply) noexcept = 0;
  // It waits no longer, for it asks for something else, which is decided later.
  virtual void abandoned(ConnectionId client) noexcept = 0;
  // It is gone, with what it waited for.
  virtual void closed(ConnectionId client) noexcept = 0;
  // Something has happened that is none of these.
  virtual void lost() noexcept = 0;
};

}  // namespace cpprun
