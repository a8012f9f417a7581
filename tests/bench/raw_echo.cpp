// SPDX-License-Identifier: BSD-3-Clause
// The physical limit beside which the store is measured: an epoll loop that sends back what it
// reads and decides nothing. Prints its port; exits when its input ends.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>

int main() {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int on = 1;
  setsockopt(listening, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (bind(listening, reinterpret_cast<sockaddr*>(&address), size) != 0) return 1;
  if (listen(listening, 65536) != 0) return 1;
  getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("%d\n", ntohs(address.sin_port));
  std::fflush(stdout);

  const int loop = epoll_create1(0);
  const auto watch = [&](int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
  };
  watch(listening);
  watch(STDIN_FILENO);
  std::array<epoll_event, 256> events;
  std::array<char, 65536> bytes;
  while (true) {
    const int count = epoll_wait(loop, events.data(), events.size(), -1);
    for (int at = 0; at < count; ++at) {
      const int fd = events[static_cast<std::size_t>(at)].data.fd;
      if (fd == STDIN_FILENO) return 0;
      if (fd == listening) {
        while (true) {
          const int accepted = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK);
          if (accepted < 0) break;
          watch(accepted);
        }
        continue;
      }
      const ssize_t received = recv(fd, bytes.data(), bytes.size(), 0);
      // The load never sends more than a socket takes, so that one send is enough.
      if (received <= 0 ||
          send(fd, bytes.data(), static_cast<std::size_t>(received), MSG_NOSIGNAL) < 0) {
        close(fd);
      }
    }
  }
}
