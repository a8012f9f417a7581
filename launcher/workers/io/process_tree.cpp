// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "proto/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun::io {

namespace {

std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) return numbers;
  while (const dirent* entry = ::readdir(directory)) {
    if (const auto number = exact_number<int>(entry->d_name)) numbers.push_back(*number);
  }
  ::closedir(directory);
  return numbers;
}

// The threads of a process. Mostly there is none but the first, which has the number of the
// process; the folder's links tell that (itself, its parent, and one for each) for a fraction of a
// listing.
std::vector<int> threads_of(int pid, const std::string& tasks) {
  constexpr nlink_t links_of_one = 3;
  struct stat folder {};
  if (::stat(tasks.c_str(), &folder) == 0 && folder.st_nlink == links_of_one) return {pid};
  return numbers_in(tasks);
}

// The kernel's own list, where it was built with one; false where it was not.
bool append_listed_children(int pid, std::vector<Descendant>& children) {
  const auto tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const int task : threads_of(pid, tasks)) {
    const auto text = read_proc(tasks + "/" + std::to_string(task) + "/children", 1 << 20);
    if (!text) return false;
    for (const std::string_view word : split(*text, ' ')) {
      const auto child = exact_number<int>(word);
      if (child) children.push_back({.pid = *child, .parent = pid});
    }
  }
  return true;
}

// The slow way round: everybody's parent.
std::vector<Descendant> family_by_parents(int root, const std::vector<int>& left_out) {
  std::vector<ProcessStat> everybody;
  for (const int pid : all_processes()) {
    const bool out = std::find(left_out.begin(), left_out.end(), pid) != left_out.end();
    if (auto stat = read_stat(pid); stat && !out) everybody.push_back(*stat);
  }
  std::vector<Descendant> found{{.pid = root}};
  for (std::size_t next = 0; next < found.size(); ++next) {
    for (const auto& each : everybody) {
      if (each.parent == found[next].pid) found.push_back({each.pid, each.parent});
    }
  }
  found.erase(found.begin());
  return found;
}

// Without a hold of the process: who it is, is looked at twice.
bool kill_looked_at(int pid, int signal, const std::function<bool(int pid)>& still_meant) {
  const auto before = read_stat(pid);
  if (!before || !still_meant(pid)) return false;
  const auto after = read_stat(pid);
  return after && after->started == before->started && ::kill(pid, signal) == 0;
}

}  // namespace

std::optional<std::string> read_proc(const std::string& path, std::size_t bytes_max) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string text;
  char buffer[4096];
  while (text.size() < bytes_max) {
    const auto got = ::read(file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(file);
  return text;
}

std::optional<ProcessStat> read_stat(int pid) {
  const auto text = read_proc("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return std::nullopt;
  // The name may hold spaces and brackets; what follows the last bracket is regular.
  const auto name_end = text->rfind(')');
  ProcessStat stat{.pid = pid};
  if (name_end == std::string::npos) return std::nullopt;
  const auto name_begin = text->find('(');
  if (name_begin < name_end) stat.name = text->substr(name_begin + 1, name_end - name_begin - 1);
  // Its start is the 22nd field; the bracket closes the second.
  const int fields =
      std::sscanf(text->c_str() + name_end + 1,
                  " %c %d %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%*s %*s %*s %llu",
                  &stat.state, &stat.parent, &stat.group, &stat.session, &stat.started);
  if (fields != 5) return std::nullopt;
  return stat;
}

std::vector<int> all_processes() {
  return numbers_in("/proc");
}

std::vector<Descendant> family_of(int root, const std::vector<int>& left_out) {
  std::vector<Descendant> found;
  std::vector<int> below{root};
  const auto is_left_out = [&left_out](const Descendant& each) {
    return std::find(left_out.begin(), left_out.end(), each.pid) != left_out.end();
  };
  for (std::size_t next = 0; next < below.size(); ++next) {
    std::vector<Descendant> children;
    // A process that is gone by now has no children left: they have become ours.
    const bool listed = append_listed_children(below[next], children);
    if (!listed && next == 0) return family_by_parents(root, left_out);
    std::erase_if(children, is_left_out);
    for (const auto& each : children) below.push_back(each.pid);
    found.insert(found.end(), children.begin(), children.end());
  }
  return found;
}

std::vector<int> children_of(int pid) {
  std::vector<Descendant> children;
  if (!append_listed_children(pid, children)) {
    children = family_by_parents(pid, {});
    std::erase_if(children, [pid](const Descendant& each) { return each.parent != pid; });
  }
  std::vector<int> pids;
  for (const auto& each : children) pids.push_back(each.pid);
  return pids;
}

std::vector<int> descendants_of(int root) {
  std::vector<int> pids;
  for (const auto& each : family_of(root)) pids.push_back(each.pid);
  return pids;
}

bool carries_token(int pid, const std::string& token) {
  if (token.empty()) return false;
  const auto text =
      read_proc("/proc/" + std::to_string(pid) + "/environ", bounds::environ_bytes_max);
  if (!text) return false;
  const std::string name = '\0' + std::string(contract::node_token) + '=';
  const auto all = '\0' + *text;
  const auto at = all.find(name);
  if (at == std::string::npos) return false;
  // A cpprun inside a worker of another cpprun adds its token to the outer one's.
  const auto value = all.substr(at + name.size(), all.find('\0', at + 1) - at - name.size());
  return value.find(token) != std::string::npos;
}

bool kill_checked(int pid, int signal, const std::function<bool(int pid)>& still_meant) {
  const auto held = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (held < 0 && errno == ESRCH) return false;
  if (held < 0) return kill_looked_at(pid, signal, still_meant);
  if (!still_meant(pid)) {
    ::close(held);
    return false;
  }
  const bool sent = ::syscall(SYS_pidfd_send_signal, held, signal, nullptr, 0) == 0;
  const bool refused = !sent && errno != ESRCH;
  const bool sent_plainly = refused && kill_looked_at(pid, signal, still_meant);
  ::close(held);
  return sent || sent_plainly;
}

}  // namespace cpprun::io
