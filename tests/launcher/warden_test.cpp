#include "launcher/io/warden.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "launcher/io/process.h"
#include "launcher/io/process_tree.h"
#include "tests/launcher/io_probe.h"

using namespace cpprun;
using probe::Pipe;
using probe::victim;

namespace {

std::string fresh_token() {
  return "wardentest" + std::to_string(::getpid()) + "x";
}

int count_carriers(const std::string& token) {
  int carriers = 0;
  for (const int pid : io::all_processes()) {
    const auto stat = io::read_stat(pid);
    carriers += stat && stat->alive() && io::carries_token(pid, token) ? 1 : 0;
  }
  return carriers;
}

void await_end(int pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
}

}  // namespace

TEST_CASE("KILL to the launcher leaves no worker, no child of one and no daemon") {
  const auto token = fresh_token();
  Pipe heard;
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::dup2(heard.in(), STDOUT_FILENO);
    const auto path = victim();
    ::execl(path.c_str(), path.c_str(), "launcher", token.c_str(), nullptr);
    ::_exit(9);
  }
  heard.close_in();
  REQUIRE(heard.read_line() == "ready");
  CHECK(count_carriers(token) == 3);
  ::kill(launcher, SIGKILL);
  await_end(launcher);
  // The pipe ends when the last of them has let go of it.
  CHECK(heard.read_all().empty());
  CHECK(count_carriers(token) == 0);
}

TEST_CASE("the warden ends by itself when its owner lets go, and harms nobody else") {
  const pid_t bystander = ::fork();
  if (bystander == 0) {
    while (true) ::pause();
  }
  int pid = 0;
  {
    auto warden = io::Warden::post(fresh_token());
    REQUIRE(warden.has_value());
    pid = warden->pid();
    // A number it was told of and that by now is somebody else's: the group is gone.
    warden->told_started(bystander);
    warden->told_gone(bystander);
  }
  await_end(pid);
  CHECK(::waitpid(bystander, nullptr, WNOHANG) == 0);
  ::kill(bystander, SIGKILL);
  await_end(bystander);
}

TEST_CASE("the warden ignores what ends cpprun, and goes by another name") {
  auto warden = io::Warden::post(fresh_token());
  REQUIRE(warden.has_value());
  const auto name_file = "/proc/" + std::to_string(warden->pid()) + "/comm";
  std::string name;
  // It takes its name last of all, after it has set its signals.
  while (name != "job-warden") {
    std::ifstream file(name_file);
    REQUIRE(std::getline(file, name));
  }
  ::kill(warden->pid(), SIGTERM);
  ::kill(warden->pid(), SIGINT);
  ::kill(warden->pid(), SIGHUP);
  CHECK(::waitpid(warden->pid(), nullptr, WNOHANG) == 0);
  const int pid = warden->pid();
  { const io::Warden let_go = std::move(*warden); }
  await_end(pid);
}

TEST_CASE("the warden removes the private folder that cpprun could not remove itself") {
  const auto folder = std::filesystem::temp_directory_path() / fresh_token();
  std::filesystem::create_directories(folder / "0");
  std::ofstream(folder / "0" / "error.json") << "{}";
  int pid = 0;
  {
    auto warden = io::Warden::post(fresh_token());
    REQUIRE(warden.has_value());
    pid = warden->pid();
    warden->told_folder(folder);
  }
  await_end(pid);
  CHECK_FALSE(std::filesystem::exists(folder));
}
