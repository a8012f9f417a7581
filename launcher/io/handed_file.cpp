// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/io/handed_file.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace cpprun::io {

namespace {

using Numbers = std::array<int, 2>;

struct Letter {
  Numbers numbers{};
  iovec part{numbers.data(), sizeof numbers};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> beside{};
  msghdr head{};
  Letter() {
    head.msg_iov = &part;
    head.msg_iovlen = 1;
  }
  void make_room() {
    head.msg_control = beside.data();
    head.msg_controllen = static_cast<decltype(head.msg_controllen)>(beside.size());
  }
};

}  // namespace

std::optional<HandedFileWay> make_way() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  return HandedFileWay{FileDescriptor{ends[0]}, FileDescriptor{ends[1]}};
}

void hand(int socket, int number, int error_number, int file) {
  Letter letter;
  letter.numbers = {number, error_number};
  if (file >= 0) {
    letter.make_room();
    cmsghdr* const beside = CMSG_FIRSTHDR(&letter.head);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(beside), &file, sizeof file);
  }
  // Where nobody is there to take it there is nobody to be told.
  static_cast<void>(::sendmsg(socket, &letter.head, MSG_NOSIGNAL));
}

std::optional<HandedFile> take_handed_now(int socket, bool& ended) {
  Letter letter;
  letter.make_room();
  const auto got = ::recvmsg(socket, &letter.head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const bool nothing_yet = got < 0 && (errno == EAGAIN || errno == EINTR);
  ended = !nothing_yet && got != static_cast<ssize_t>(sizeof(Numbers));
  if (nothing_yet || ended) return std::nullopt;
  HandedFile handed{.number = letter.numbers[0], .error_number = letter.numbers[1], .file = {}};
  const cmsghdr* const beside = CMSG_FIRSTHDR(&letter.head);
  if (beside != nullptr && beside->cmsg_type == SCM_RIGHTS) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(beside), sizeof file);
    handed.file.reset(file);
  }
  return handed;
}

std::optional<HandedFile> take_handed(int socket, TimePoint deadline) {
  bool ended = false;
  while (!ended) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd news{socket, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&news, 1, static_cast<int>(left.count())) == 0) break;
    if (auto handed = take_handed_now(socket, ended)) return handed;
  }
  return std::nullopt;
}

}  // namespace cpprun::io
