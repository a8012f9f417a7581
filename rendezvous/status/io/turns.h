// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Pieces of work that nobody else may have to wait for more than once: they are done one at a time,
// in the order in which they came, and between two of them the event loop looks at every socket and
// does what it finds there.

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace cpprun {

class Turns : public std::enable_shared_from_this<Turns> {
 public:
  explicit Turns(asio::io_context& context) : context_(context) {}

  // Done from the event loop, never from within this call.
  void add(std::function<void()> work) {
    waiting_.push_back(std::move(work));
    if (!is_posted_) post();
  }

 private:
  // What is posted comes before what a look at the sockets finds, so that one look is let pass.
  void post() {
    is_posted_ = true;
    asio::post(context_, [self = shared_from_this()] {
      asio::post(self->context_, [self] { self->next(); });
    });
  }
  void next() {
    const auto work = std::move(waiting_.front());
    waiting_.pop_front();
    is_posted_ = false;
    if (!waiting_.empty()) post();  // before the work, which may throw
    work();                         // may add to them
  }

  asio::io_context& context_;
  std::deque<std::function<void()>> waiting_;
  bool is_posted_ = false;  // the first of them has its turn coming
};

}  // namespace cpprun
