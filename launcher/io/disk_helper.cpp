// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/io/disk_helper.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <array>
#include <csignal>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

AsyncTask::AsyncTask(asio::io_context& context, HelperProcesses& side, Duration timeout,
                     bool only_in_helper)
    : news_(context),
      timer_(context),
      side_(side),
      timeout_(timeout),
      only_in_helper_(only_in_helper) {}

AsyncTask::~AsyncTask() {
  *alive_ = false;
  if (only_in_helper_ && pid_) side_.end(*pid_);
}

void AsyncTask::ask(Look look, Told told) {
  waiting_.push_back({std::move(look), std::move(told)});
  begin();
}

void AsyncTask::begin() {
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
  const auto look_at_all = [&, owner = ::getpid()] {
    if (only_in_helper_) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (only_in_helper_ && ::getppid() != owner) return;
    for (const auto& each : asked_) write_all(ends[1], packed({each.look()}));
  };
  const auto pid = has_pipe ? side_.start({ends[1]}, look_at_all) : failure("no pipe");
  if (!pid) {
    // No process can be had: better waited for than not looked at.
    if (!only_in_helper_) {
      for (const auto& each : asked_) answers_ += packed({each.look()});
    }
    asio::post(timer_.get_executor(), [this, alive = alive_] {
      if (*alive) tell();
    });
    return;
  }
  pid_ = *pid;
  timer_.expires_after(timeout_);
  timer_.async_wait([this, alive = alive_, pid = *pid](const asio::error_code& cancelled) {
    if (cancelled || !*alive) return;
    side_.end(pid);
    tell();
  });
  listen();
}

// Asio may report readable although it is not: a report about a closed descriptor can arrive for
// the next one.
void AsyncTask::listen() {
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

void AsyncTask::tell() {
  timer_.cancel();
  news_.close();
  pid_.reset();
  const auto told = std::exchange(asked_, {});
  const auto answers = unpacked(std::exchange(answers_, {}));
  const auto alive = alive_;
  for (std::size_t i = 0; i < told.size() && *alive; ++i) {
    told[i].told(i < answers.size() ? std::optional(answers[i]) : std::nullopt);
  }
  if (*alive) begin();
}

}  // namespace cpprun::io
