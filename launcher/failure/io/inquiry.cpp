// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/inquiry.h"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

Inquiry::Inquiry(asio::io_context& context, Duration patience)
    : news_(context), timer_(context), patience_(patience) {}

Inquiry::~Inquiry() {
  *alive_ = false;
}

void Inquiry::ask(std::function<void()> look, std::function<void(bool)> told) {
  waiting_.push_back({std::move(look), std::move(told)});
  if (asked_.empty()) begin();
}

void Inquiry::begin() {
  asked_ = std::exchange(waiting_, {});
  if (asked_.empty()) return;
  std::vector<std::function<void()>> looks;
  for (auto& each : asked_) looks.push_back(std::move(each.look));
  int ends[2] = {-1, -1};
  const bool has_pipe = ::pipe2(ends, O_CLOEXEC) == 0;
  auto end = std::make_shared<FileDescriptor>(ends[1]);
  news_.close();
  if (has_pipe) {
    news_.assign(ends[0]);
    news_.non_blocking(true);
  }
  try {
    if (!has_pipe) throw std::system_error(errno, std::generic_category());
    std::thread([looks, end] {
      for (const auto& look : looks) look();
      end->reset();
    }).detach();
  } catch (const std::system_error&) {
    // No thread can be had: better waited for than not looked at.
    for (const auto& look : looks) look();
    end->reset();
    if (!has_pipe) return tell(true);
  }
  timer_.expires_after(patience_);
  timer_.async_wait([this, alive = alive_](const asio::error_code& cancelled) {
    if (!cancelled && *alive) tell(false);
  });
  listen();
}

// Asio may say that it can be read though it cannot: what it had to say of a descriptor that was
// closed since is told of the next one. So the thread has come to its end where the pipe has.
void Inquiry::listen() {
  news_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this, alive = alive_](const asio::error_code& cancelled) {
                     if (cancelled || !*alive) return;
                     char nothing = 0;
                     const auto got = ::read(news_.native_handle(), &nothing, sizeof nothing);
                     if (got < 0) return listen();
                     tell(true);
                   });
}

void Inquiry::tell(bool in_time) {
  timer_.cancel();
  news_.close();
  const auto told = std::exchange(asked_, {});
  begin();
  for (const auto& each : told) each.told(in_time);
}

}  // namespace cpprun::io
