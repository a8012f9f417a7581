// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/record_sizes.h"

#include <fmt/format.h>

#include "proto/bounds.h"
#include "proto/etcd_bounds.h"
#include "proto/text.h"

namespace cpprun {

Result<void> RecordSizes::keep(const std::string& name, std::size_t bytes) {
  if (name.empty()) return failure("a record without a name cannot be kept in etcd");
  if (name.size() > bounds::contest_record_name_bytes_max) {
    return failure(fmt::format("the name \"{}\" has {} bytes, and a record in etcd has at most {}",
                               plain_line(name, bounds::name_shown_bytes_max), name.size(),
                               bounds::contest_record_name_bytes_max));
  }
  const std::string shown = plain_line(name, bounds::name_shown_bytes_max);
  if (bytes > bounds::contest_record_bytes_max) {
    return failure(fmt::format("the record of \"{}\" has {} bytes, and one in etcd has at most {}",
                               shown, bytes, bounds::contest_record_bytes_max));
  }
  const auto known = sizes_.find(name);
  if (known == sizes_.end() && sizes_.size() >= bounds::contest_records_max) {
    return failure(fmt::format("\"{}\" would be one record more than the {} that are kept in etcd",
                               shown, bounds::contest_records_max));
  }
  const std::size_t rest = bytes_ - (known == sizes_.end() ? 0 : known->second);
  if (rest + bytes > bounds::contest_records_bytes_max) {
    return failure(fmt::format(
        "with \"{}\" the records in etcd would have {} bytes, and all of them have at most {}",
        shown, rest + bytes, bounds::contest_records_bytes_max));
  }
  found(name, bytes);
  return {};
}

void RecordSizes::drop(const std::string& name) {
  const auto known = sizes_.find(name);
  if (known == sizes_.end()) return;
  bytes_ -= known->second;
  sizes_.erase(known);
}

void RecordSizes::found(const std::string& name, std::size_t bytes) {
  drop(name);
  sizes_.emplace(name, bytes);
  bytes_ += bytes;
}

void RecordSizes::clear() {
  sizes_.clear();
  bytes_ = 0;
}

}  // namespace cpprun
