// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The file of --events. Lines reach it whole and in order, or not yet: what a pipe that is not read
// or a disk that is full does not take now waits, bounded, and goes with the next ones, or as soon
// as there is room where that can be told. Nothing here blocks.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class EventFile {
 public:
  EventFile() = default;  // none is kept
  // Appended to; a pipe that nobody reads is refused.
  static Result<EventFile> open(const std::string& path);

  explicit operator bool() const { return bool(file_); }

  // From now on a pipe that is full is written to again when it has room. It stays where it is
  // then.
  void serve(asio::io_context& context);
  // An error is told once for each time that it begins. After one that no waiting cures the file is
  // closed and nothing is written any more.
  Result<void> append(const std::string& line);
  // Once more, since this is the end: a pipe may grow to hold it.
  void finish();

  // Lines that found no room even to wait, since this was asked last.
  std::size_t take_lost();
  bool all_written() const { return waiting_.empty(); }

 private:
  enum class Outcome { written, later, over };

  Outcome write_front();
  Result<void> write_waiting();
  void listen();
  void cut_back(std::size_t torn) const;

  FileDescriptor file_;
  std::string path_;
  // Asked whether there is room; shared with the handler that waits, which may outlive a move.
  std::shared_ptr<asio::posix::stream_descriptor> room_;
  std::deque<std::string> waiting_;  // the rest of a line that a pipe took a part of comes first
  std::size_t waiting_bytes_ = 0;
  std::size_t lost_ = 0;
  bool complained_ = false;
  bool listening_ = false;  // for room in a pipe
  int error_number_ = 0;
};

}  // namespace cpprun::io
