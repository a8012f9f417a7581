// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "proto/clock.h"

namespace cpprun {

// Writes to a stream it does not own (a terminal, a pipe, a socket, a file) without ever blocking.
// What cannot be written yet waits in a queue; callers check `full` and pause. Other processes
// on the same terminal or pipe keep a blocking descriptor: the non-blocking one is our own.
//
// No error is final: a full disk gets room, a named pipe gets another reader. Until then what is
// written is lost and counted; each write tries again. Lines wait for a full disk instead.
class NonBlockingWriter {
 public:
  struct Callbacks {
    std::function<void()> room = {};   // the queue was full and no longer is
    std::function<void()> empty = {};  // everything was written, or is lost
    // From here on what is written is lost; said once, until it is back.
    std::function<void(int error_number)> lost = {};
    // It takes words again, and so many bytes were lost meanwhile.
    std::function<void(std::uint64_t bytes)> back = {};
  };

  // `descriptor` stays the caller's. `of_lines`: each line is written with one call, so that it
  // stays whole beside the lines of other processes. If the disk is full, `lost` is called, but
  // lines stay queued, and each write tries again.
  NonBlockingWriter(asio::io_context& context, int descriptor, Callbacks callbacks,
                    bool of_lines = false);
  ~NonBlockingWriter();
  NonBlockingWriter(const NonBlockingWriter&) = delete;
  NonBlockingWriter& operator=(const NonBlockingWriter&) = delete;

  // Writes at once what the reader takes, and queues the rest. Without bytes: tries again.
  void write(std::string_view bytes);

  bool full() const;
  // False for what can only be asked first and then written to, and for a terminal may block.
  bool never_blocks() const { return way_ != Way::cautiously; }
  bool empty() const { return waiting() == 0; }
  std::size_t waiting() const { return queue_.size() - written_; }
  // The bytes that wait.
  std::string queued() const { return queue_.substr(written_); }

  // The last act of a process without an event loop: waits for a slow reader, but no longer.
  void flush(Duration timeout);
  // Nothing more is written, and our own descriptor is let go.
  void close();

 private:
  enum class Way {
    direct,      // a file: never blocks for long
    own,         // reopened for us alone, non-blocking
    socket,      // a flag per call does it
    cautiously,  // asked first, and then a little at a time
  };

  void choose_way();
  int watched() const { return own_ >= 0 ? own_ : descriptor_; }
  long put(const char* bytes, std::size_t count) const;
  // Writes until the stream is full: returns 0, EAGAIN, or the error that lost the rest.
  int write_queued();
  void push_out();
  void wait();
  void lose(int error_number);
  static void call(const std::function<void()>& callback) {
    if (callback) callback();
  }

  int descriptor_;
  bool of_lines_;
  int own_ = -1;
  Way way_ = Way::direct;
  // An epoll of our own around the descriptor: waiting on the descriptor itself would make Asio
  // switch it to non-blocking for all processes that share it.
  asio::posix::stream_descriptor watch_;
  Callbacks callbacks_;
  std::string queue_;
  std::size_t written_ = 0;  // of the queue's front
  bool waiting_ = false;
  bool was_full_ = false;
  bool is_lost_ = false;
  bool is_disk_full_ = false;  // and lines wait for room
  bool is_torn_ = false;       // what was written last is a line without its end
  std::uint64_t lost_bytes_ = 0;
};

}  // namespace cpprun
