// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/request_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proto/c10d/bounds.h"
#include "proto/link/bounds.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/client/bounds.h"

namespace cpprun {

namespace {

StoreError too_large(std::string reason) {
  return {{std::move(reason)}, StoreErrorCode::too_large};
}

// Adds up the parts of one request; the first that is too large is the objection.
class Size {
 public:
  Size& key(c10d::Bytes key) {
    if (key.size() > bounds::store_key_bytes_max && !objection) {
      objection = too_large(fmt::format("the key \"{}\" has {} bytes, more than {}",
                                        plain_line(key, bounds::name_shown_bytes_max), key.size(),
                                        bounds::store_key_bytes_max));
    }
    return add(key.size());
  }
  Size& value(c10d::Bytes value) {
    if (value.size() > bounds::store_value_bytes_max && !objection) {
      objection = too_large(fmt::format("a value of {} bytes, more than {}", value.size(),
                                        bounds::store_value_bytes_max));
    }
    return add(value.size());
  }
  // Of COMPARE_SET.
  Size& compared(c10d::Bytes value) {
    if (value.size() > bounds::store_compare_bytes_max && !objection) {
      objection = too_large(fmt::format("COMPARE_SET with a value of {} bytes, more than {}",
                                        value.size(), bounds::store_compare_bytes_max));
    }
    return add(value.size());
  }
  Size& count(std::size_t keys) {
    if (keys > bounds::store_keys_per_request_max && !objection) {
      objection = too_large(fmt::format("a request with {} keys, more than {}", keys,
                                        bounds::store_keys_per_request_max));
    }
    return add(0);
  }
  Size& keys(std::span<const c10d::Bytes> all) {
    count(all.size());
    for (const c10d::Bytes each : all) key(each);
    return *this;
  }

  std::optional<StoreError> objection;

 private:
  // A field is a length and its bytes.
  Size& add(std::size_t bytes) {
    bytes_ += sizeof(std::uint64_t) + bytes;
    if (bytes_ > bounds::store_request_bytes_max && !objection) {
      objection = too_large(
          fmt::format("a request of more than {} bytes", bounds::store_request_bytes_max));
    }
    return *this;
  }

  std::uint64_t bytes_ = 1;  // the opcode
};

}  // namespace

std::optional<StoreError> objection_to(const c10d::Request& request) {
  Size size;
  std::visit(Overloaded{
                 [&](const c10d::Set& set) { size.key(set.key).value(set.value); },
                 [&](const c10d::Append& append) { size.key(append.key).value(append.value); },
                 [&](const c10d::QueuePush& push) { size.key(push.key).value(push.value); },
                 [&](const c10d::CompareSet& set) {
                   size.key(set.key).compared(set.expected).value(set.desired);
                 },
                 [&](const c10d::MultiSet& set) {
                   size.count(set.entries.size());
                   for (const c10d::KeyValue& entry : set.entries)
                     size.key(entry.key).value(entry.value);
                 },
                 [&](const c10d::Check& check) { size.keys(check.keys); },
                 [&](const c10d::Wait& wait) { size.keys(wait.keys); },
                 [&](const c10d::MultiGet& get) { size.keys(get.keys); },
                 [&](const c10d::Get& get) { size.key(get.key); },
                 [&](const c10d::Add& add) { size.key(add.key); },
                 [&](const c10d::DeleteKey& drop) { size.key(drop.key); },
                 [&](const c10d::QueuePop& pop) { size.key(pop.key); },
                 [&](const c10d::QueueLen& length) { size.key(length.key); },
                 [&](const c10d::Barrier& barrier) { size.key(barrier.key); },
                 [&](const c10d::WatchKey& watch) { size.key(watch.key); },
                 [](const auto&) {},  // without keys
             },
             request);
  return size.objection;
}

std::string shown(std::string_view key) {
  return plain_line(key, bounds::name_shown_bytes_max);
}

std::string shown(const std::vector<std::string>& keys) {
  constexpr std::size_t shown_max = 5;
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    if (names.size() == shown_max) break;
    names.push_back(shown(key));
  }
  const std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (keys.size() <= shown_max) return text;
  return fmt::format("{} and {} more", text, keys.size() - shown_max);
}

}  // namespace cpprun
