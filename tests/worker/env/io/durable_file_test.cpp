// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/durable_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdio>

#include "tests/worker/child.h"
#include "tests/worker/temporary_directory.h"

namespace durable_file_test {

using namespace cpprun;
using cpprun::testing::TemporaryDirectory;

TEST_CASE("a committed file holds what was appended and replaced") {
  const TemporaryDirectory directory;
  auto file = DurableFile::create(directory.file("a"));
  REQUIRE(file);
  CHECK(file->append("0000").has_value());
  CHECK(file->append(" and more").has_value());
  CHECK(file->replace(0, "1234").has_value());
  CHECK(file->commit().has_value());
  CHECK(directory.read("a") == "1234 and more");
  CHECK(directory.entries() == 1);
}

TEST_CASE("until the commit the old file stays, and nothing else is left after it") {
  const TemporaryDirectory directory;
  {
    auto first = DurableFile::create(directory.file("a"));
    REQUIRE(first);
    CHECK(first->append("old").has_value());
    CHECK(first->commit().has_value());
    auto second = DurableFile::create(directory.file("a"));
    REQUIRE(second);
    CHECK(second->append("new").has_value());
    CHECK(directory.read("a") == "old");
    CHECK(directory.entries() == 2);
  }
  CHECK(directory.read("a") == "old");
  CHECK(directory.entries() == 1);
}

TEST_CASE("other users can read a committed file") {
  const TemporaryDirectory directory;
  auto file = DurableFile::create(directory.file("a"));
  REQUIRE(file);
  CHECK(file->commit().has_value());
  struct stat status {};
  REQUIRE(::stat(directory.file("a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0644U);
}

TEST_CASE("a missing directory is an error with the name of the file") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("none/a");
  const auto file = DurableFile::create(path);
  REQUIRE_FALSE(file);
  CHECK(file.error().reason == "cannot write \"" + path + "\": No such file or directory");
}

TEST_CASE("a write without disk space is an error, and nothing of it is left") {
  const TemporaryDirectory directory;
  const auto ended = cpprun::testing::run_in_child([&directory] {
    // The file size limit stands in for a disk that fills up.
    const rlimit limit{.rlim_cur = 100, .rlim_max = 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    auto file = DurableFile::create(directory.file("a"));
    if (!file) return 1;
    const auto written = file->append(std::string(1000, 'x'));
    if (written) return 2;
    std::fputs(written.error().reason.c_str(), stderr);
    return 0;
  });
  CHECK(ended.exit_code == 0);
  CHECK(ended.stderr_text == "cannot write \"" + directory.file("a") + "\": File too large");
  CHECK(directory.entries() == 0);
}

}  // namespace durable_file_test
