#pragma once
// One of cpprun's own output streams, written to without ever blocking. What cannot be written yet
// waits in a queue; whoever fills it asks `full` and stops for a while. Everybody else on the same
// terminal or pipe keeps a descriptor that blocks as before: the non-blocking one is our own.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/line_merger.h"

namespace cpprun::io {

class Console {
 public:
  struct Callbacks {
    std::function<void()> room;                  // the queue was full and no longer is
    std::function<void()> empty;                 // everything was written
    std::function<void(int error_number)> lost;  // nobody reads any more; said once
  };

  // `descriptor` stays the caller's.
  Console(asio::io_context& context, int descriptor, Callbacks callbacks);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Writes at once what the reader takes, and queues the rest.
  void write(int speaker, std::string_view prefix, const Piece& piece);

  bool full() const;
  bool empty() const { return written_ == queue_.size(); }

 private:
  enum class Way {
    direct,      // a file: never blocks for long
    own,         // reopened for us alone, non-blocking
    socket,      // a flag per call does it
    cautiously,  // asked first, and then a little at a time
  };

  void choose_way();
  long put(const char* bytes, std::size_t count) const;
  void push_out();
  void wait();
  void give_up(int error_number);

  int descriptor_;
  int own_ = -1;
  Way way_ = Way::direct;
  // An epoll of our own around the descriptor: waiting on the descriptor itself would make Asio
  // switch it to non-blocking for everybody who shares it.
  asio::posix::stream_descriptor watch_;
  Callbacks callbacks_;
  LineMerger merger_;
  std::string queue_;
  std::size_t written_ = 0;  // of the queue's front
  bool waiting_ = false;
  bool was_full_ = false;
  bool lost_ = false;
};

}  // namespace cpprun::io
