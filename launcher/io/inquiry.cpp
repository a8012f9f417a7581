// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/io/inquiry.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <asio/post.hpp>
#include <cerrno>
#include <utility>

#include "launcher/packed_texts.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

Inquiry::Inquiry(asio::io_context& context, SideProcesses& side, Duration patience)
    : news_(context), timer_(context), side_(side), patience_(patience) {}

Inquiry::~Inquiry() {
  *alive_ = false;
}

void Inquiry::ask(Look look, Told told) {
  waiting_.push_back({std::move(look), std::move(told)});
  begin();
}

void Inquiry::begin() {
  if (!asked_.empty()) return;
  asked_ = std::exchange(waiting_, {});
  if (asked_.empty()) return;
  answers_.clear();
  news_.close();
  int ends[2] = {-1, -1};
  const bool has_pipe = ::pipe2(ends, O_CLOEXEC) == 0;
  FileDescriptor theirs{ends[1]};
  if (has_pipe) {
    news_.assign(ends[0]);
    news_.non_blocking(true);
  }
  const auto look_at_all = [&] {
    for (const auto& each : asked_) write_all(ends[1], packed({each.look()}));
  };
  const auto pid = has_pipe ? side_.start({ends[1]}, look_at_all) : failure("no pipe");
  if (!pid) {
    // No process can be had: better waited for than not looked at.
    for (const auto& each : asked_) answers_ += packed({each.look()});
    asio::post(timer_.get_executor(), [this, alive = alive_] {
      if (*alive) tell();
    });
    return;
  }
  timer_.expires_after(patience_);
  timer_.async_wait([this, alive = alive_, pid = *pid](const asio::error_code& cancelled) {
    if (cancelled || !*alive) return;
    side_.end(pid);
    tell();
  });
  listen();
}

// Asio may say that it can be read though it cannot: what it had to say of a descriptor that was
// closed since is told of the next one.
void Inquiry::listen() {
  news_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this, alive = alive_](const asio::error_code& cancelled) {
                     if (cancelled || !*alive) return;
                     std::array<char, 4096> some;
                     const auto got = ::read(news_.native_handle(), some.data(), some.size());
                     if (got == 0) return tell();
                     if (got > 0) answers_.append(some.data(), static_cast<std::size_t>(got));
                     listen();
                   });
}

void Inquiry::tell() {
  timer_.cancel();
  news_.close();
  const auto told = std::exchange(asked_, {});
  const auto answers = unpacked(std::exchange(answers_, {}));
  const auto alive = alive_;
  for (std::size_t i = 0; i < told.size() && *alive; ++i) {
    told[i].told(i < answers.size() ? std::optional(answers[i]) : std::nullopt);
  }
  if (*alive) begin();
}

}  // namespace cpprun::io
