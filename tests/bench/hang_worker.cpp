// SPDX-License-Identifier: BSD-3-Clause
// The smallest worker that hangs: it serves the stack and the flight record of a rank that waits in
// its 1204th all_reduce, as the probe in a Python worker does. The odd rank never reached it.
//
//   hang_worker ODD [FILE]
//
// Creates or touches FILE when it begins to hang.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

constexpr int last_operation = 1204;

std::string answer_to(std::string_view request, bool is_odd) {
  if (request.starts_with("POST /handler/dump_traceback")) {
    const std::string_view frames =
        is_odd
            ? "  File \"/a/data.py\", line 12 in fetch_next_shard\n"
            : "  File \"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", "
              "line 3252 in all_reduce\n";
    return "Thread 0x00007f14dbe6cb80 (most recent call first):\n" + std::string(frames) +
           "  File \"/a/train.py\", line 88 in train_step\n"
           "  File \"/a/train.py\", line 120 in <module>\n";
  }
  if (request.starts_with("POST /handler/fr_trace_json")) {
    return R"({"entries":[{"collective_seq_id":)" + std::to_string(last_operation - is_odd) +
           R"(,"input_dtypes":["Float"],"input_sizes":[[4,1024]],"is_p2p":false,"p2p_seq_id":0,)"
           R"("pg_id":0,"process_group":["0","default_pg"],"profiling_name":"gloo:all_reduce",)"
           R"("retired":)" +
           (is_odd ? "true" : "false") + R"(,"state":"scheduled"}],"version":"2.10"})";
  }
  return "ok";
}

int listener_at(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) ::_exit(64);
  std::memcpy(address.sun_path, path, std::strlen(path));
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  constexpr int queue_length = 16;
  if (::bind(listener, plain, sizeof address) != 0) ::_exit(71);
  if (::listen(listener, queue_length) != 0) ::_exit(71);
  return listener;
}

void serve(int client, bool is_odd) {
  char request[4096];
  const auto got = ::recv(client, request, sizeof request, 0);
  if (got > 0) {
    const std::string body = answer_to({request, static_cast<std::size_t>(got)}, is_odd);
    const std::string reply = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\nConnection: close\r\n\r\n" + body;
    static_cast<void>(::send(client, reply.data(), reply.size(), MSG_NOSIGNAL));
  }
  ::close(client);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const rank = std::getenv("RANK");
  if (argc < 2 || rank == nullptr) return 64;
  const bool is_odd = std::string_view(rank) == argv[1];
  const int listener = listener_at(std::getenv("CPPRUN_PROBE_SOCKET"));
  if (argc > 2) {
    const int file = ::open(argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::futimens(file, nullptr) != 0) return 73;
    ::close(file);
  }
  for (;;) {
    const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) serve(client, is_odd);
  }
}
