// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a job's store holds at one moment, as the beginning of a log (StoreLog, "image"): whoever
// reads it, and then what is written down from that moment on, comes to the same. It is made a
// slice at a time, with all links served in between; the job's own workers wait meanwhile, and
// nobody else does.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/coordinator/io/stream_routes.h"
#include "rendezvous/store/store_log.h"

namespace cpprun {

class StoreImage {
 public:
  struct Place {
    ConnectionSet& connections;
    const StreamRoutes& routes;
    ListenerId listener;
    const Store& store;
    std::string job;
    const StoreLog& log;  // of what happens meanwhile
  };
  explicit StoreImage(Place place);
  ~StoreImage();
  StoreImage(const StoreImage&) = delete;
  StoreImage& operator=(const StoreImage&) = delete;

  // One slice. True: it is whole.
  bool go_on();
  // What there is of it and was not taken yet.
  std::string take() { return image_.take(); }
  // It is what the store was when so much of the log was written; nothing: that is still to come.
  std::optional<std::uint64_t> at() const { return at_; }
  // There was no memory for it.
  bool is_lost() const { return image_.is_lost(); }

 private:
  void show_clients();

  const Place place_;
  StoreLog image_;
  std::optional<std::uint64_t> at_;
  std::size_t next_shard_ = 0;
};

}  // namespace cpprun
