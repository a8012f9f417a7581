// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/stream_writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "rendezvous/bounds.h"
#include "rendezvous/io/file_descriptor.h"

namespace non_blocking_writer_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// The writer's reports.
struct Reports {
  std::vector<int> lost;
  std::vector<std::uint64_t> back;
  int room = 0;
  NonBlockingWriter::Callbacks callbacks() {
    return {.room = [this] { ++room; },
            .empty = {},
            .lost = [this](int error_number) { lost.push_back(error_number); },
            .back = [this](std::uint64_t bytes) { back.push_back(bytes); }};
  }
};

// Writes to files fail in this process, as on a full disk, while this object exists.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ignored_ = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, ignored_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*ignored_)(int) = SIG_DFL;
};

struct TemporaryFile {
  TemporaryFile() : fd(mkstemp(path)) { REQUIRE(fd); }
  ~TemporaryFile() { unlink(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  char path[32] = "/tmp/cpprun_writer_XXXXXX";
  FileDescriptor fd;
};

std::string read_what_is_there(int fd) {
  std::string text;
  char bytes[65536];
  pollfd watched{fd, POLLIN, 0};
  while (poll(&watched, 1, 0) == 1) {
    const auto count = read(fd, bytes, sizeof bytes);
    if (count <= 0) break;
    text.append(bytes, static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace

TEST_CASE("a stream silenced by a full disk resumes when there is room, on a line of its own") {
  asio::io_context context;
  TemporaryFile file;
  Reports reports;
  NonBlockingWriter writer(context, file.fd.get(), reports.callbacks());
  {
    const FullDisk disk(10);
    writer.write("first\nsecond\n");
    CHECK(reports.lost == std::vector<int>{EFBIG});
    CHECK(writer.empty());
    writer.write("third\n");
    CHECK(reports.lost.size() == 1);
    CHECK(reports.back.empty());
  }
  CHECK(file.text() == "first\nseco");
  writer.write("fourth\n");
  CHECK(reports.back == std::vector<std::uint64_t>{3 + 6});
  writer.write("fifth\n");
  CHECK(file.text() == "first\nseco\nfourth\nfifth\n");
  CHECK(reports.back.size() == 1);
}

TEST_CASE("a pipe without a reader loses output, with no other effect") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  asio::io_context context;
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  FileDescriptor reader(ends[0]);
  const FileDescriptor writing(ends[1]);
  Reports reports;
  NonBlockingWriter writer(context, writing.get(), reports.callbacks());
  writer.write("heard\n");
  reader.reset();
  for (int at = 0; at < 3; ++at) writer.write("not heard\n");
  CHECK(reports.lost == std::vector<int>{EPIPE});
  CHECK(reports.back.empty());
  std::signal(SIGPIPE, before);
}

TEST_CASE("a named pipe is written to again when it gets another reader") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  asio::io_context context;
  TemporaryFile place;
  REQUIRE(unlink(place.path) == 0);
  REQUIRE(mkfifo(place.path, 0600) == 0);
  FileDescriptor reader(open(place.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const FileDescriptor writing(open(place.path, O_WRONLY | O_CLOEXEC));
  REQUIRE(writing);
  Reports reports;
  NonBlockingWriter writer(context, writing.get(), reports.callbacks());
  reader.reset();
  writer.write("no reader\n");
  CHECK(reports.lost == std::vector<int>{EPIPE});
  reader.reset(open(place.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  writer.write("a reader\n");
  CHECK(reports.back == std::vector<std::uint64_t>{10});
  CHECK(read_what_is_there(reader.get()) == "a reader\n");
  std::signal(SIGPIPE, before);
}

TEST_CASE("a reader that stalls fills the queue and receives all of it in the end") {
  asio::io_context context;
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const FileDescriptor reader(ends[0]);
  const FileDescriptor writing(ends[1]);
  Reports reports;
  NonBlockingWriter writer(context, writing.get(), reports.callbacks());
  std::size_t written = 0;
  while (!writer.full()) {
    writer.write(std::string(1000, 'x'));
    written += 1000;
  }
  CHECK(written > bounds::console_queue_bytes_max);
  // The pipe still blocks for other processes that share it.
  CHECK((fcntl(writing.get(), F_GETFL) & O_NONBLOCK) == 0);
  std::size_t seen = 0;
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (seen < written && std::chrono::steady_clock::now() < deadline) {
    seen += read_what_is_there(reader.get()).size();
    context.run_one_for(100ms);
    context.restart();
  }
  CHECK(seen == written);
  CHECK(reports.room == 1);
  CHECK(reports.lost.empty());
}

TEST_CASE("the last output waits for a slow reader, but not for ever") {
  asio::io_context context;
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const FileDescriptor reader(ends[0]);
  const FileDescriptor writing(ends[1]);
  NonBlockingWriter writer(context, writing.get(), {});
  const std::string much(100'000, 'x');
  writer.write(much);
  REQUIRE_FALSE(writer.empty());
  writer.flush(1ms);
  CHECK_FALSE(writer.empty());
  CHECK(read_what_is_there(reader.get()).size() < much.size());
  writer.flush(20s);
  CHECK(writer.empty());
}

}  // namespace non_blocking_writer_test
