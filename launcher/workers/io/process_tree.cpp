// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

#include "launcher/workers/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun::io {

namespace {

std::vector<int> numbers_in(const std::string& directory) {
  std::vector<int> numbers;
  DIR* const open = ::opendir(directory.c_str());
  if (open == nullptr) return numbers;
  while (const dirent* entry = ::readdir(open)) {
    if (const auto number = exact_number<int>(entry->d_name)) numbers.push_back(*number);
  }
  ::closedir(open);
  return numbers;
}

// The threads of a process. Usually there is only the first, whose id is the pid. The directory's
// link count shows that (itself, its parent, and one for each thread) at a fraction of the cost of
// a listing.
std::vector<int> threads_of(int pid, const std::string& tasks) {
  constexpr nlink_t links_of_one = 3;
  struct stat directory {};
  if (::stat(tasks.c_str(), &directory) == 0 && directory.st_nlink == links_of_one) return {pid};
  return numbers_in(tasks);
}

// Uses the kernel's own list. False if the kernel was built without it.
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

// The slow way: reads the parent of every process.
std::vector<Descendant> family_by_parents(int root, const std::vector<int>& left_out) {
  std::vector<ProcessStat> processes;
  for (const int pid : all_processes()) {
    const bool out = std::find(left_out.begin(), left_out.end(), pid) != left_out.end();
    if (auto stat = read_stat(pid); stat && !out) processes.push_back(*stat);
  }
  std::vector<Descendant> found{{.pid = root}};
  for (std::size_t next = 0; next < found.size(); ++next) {
    for (const auto& each : processes) {
      if (each.parent == found[next].pid) found.push_back({each.pid, each.parent});
    }
  }
  found.erase(found.begin());
  return found;
}

// Without a pidfd: checks the identity before and after.
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
  // The name may contain spaces and parentheses. The format after the last one is regular.
  const auto name_end = text->rfind(')');
  ProcessStat stat{.pid = pid};
  if (name_end == std::string::npos) return std::nullopt;
  const auto name_begin = text->find('(');
  if (name_begin < name_end) stat.name = text->substr(name_begin + 1, name_end - name_begin - 1);
  // The start time is the 22nd field. The parenthesis closes the second.
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
    // A process that is gone by now has no children: they were reparented to us.
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
  // A cpprun inside a worker of another cpprun appends its token to the outer one's.
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

namespace {

constexpr std::size_t usage_bytes_max = 4096;

std::int64_t number_at(const std::vector<std::string_view>& words, std::size_t index) {
  return index < words.size() ? leading_number<std::int64_t>(words[index]).value_or(0) : 0;
}

}  // namespace

std::optional<ProcessUsage> usage_of(int pid) {
  const auto stat = read_proc(fmt::format("/proc/{}/stat", pid), usage_bytes_max);
  const auto statm = read_proc(fmt::format("/proc/{}/statm", pid), usage_bytes_max);
  // The name may contain anything, even parentheses. After the last one there are only numbers.
  const auto name_end = stat ? stat->rfind(')') : std::string::npos;
  if (!statm || name_end == std::string::npos || name_end + 2 > stat->size()) return std::nullopt;
  const auto words = split(std::string_view(*stat).substr(name_end + 2), ' ');
  constexpr std::size_t user_word = 11;  // index after the name
  constexpr std::size_t system_word = 12;
  constexpr std::size_t resident_word = 1;
  static const std::int64_t ticks_a_second = ::sysconf(_SC_CLK_TCK);
  static const std::int64_t page_kib = ::sysconf(_SC_PAGESIZE) / 1024;
  const std::int64_t ticks = number_at(words, user_word) + number_at(words, system_word);
  return ProcessUsage{.resident_kib = number_at(split(*statm, ' '), resident_word) * page_kib,
                      .cpu = std::chrono::nanoseconds(ticks * (1'000'000'000 / ticks_a_second))};
}

Duration cpu_wait_of(int pid) {
  const auto schedule = read_proc(fmt::format("/proc/{}/schedstat", pid), usage_bytes_max);
  constexpr std::size_t waited_word = 1;
  return std::chrono::nanoseconds(schedule ? number_at(split(*schedule, ' '), waited_word) : 0);
}

namespace {

std::optional<rlimit> worn_by(int pid) {
  rlimit worn{};
  if (::prlimit(pid, RLIMIT_RTTIME, nullptr, &worn) != 0) return std::nullopt;
  return worn;
}

// Whether such a limit can be set here at all. Restores ours before it returns.
bool can_be_worn(WorkerMark mark, const rlimit& before) {
  const rlimit tried{mark.value, before.rlim_max};
  if (::setrlimit(RLIMIT_RTTIME, &tried) != 0) return false;
  const auto seen = worn_by(::getpid());
  return ::setrlimit(RLIMIT_RTTIME, &before) == 0 && seen && seen->rlim_cur == mark.value;
}

}  // namespace

JobProcesses make_job_processes(const std::string& token, std::uint32_t random) {
  JobProcesses job_processes{.mark = {}, .token = token};
  const auto worn = worn_by(::getpid());
  if (!worn) return job_processes;
  const auto mark = make_worker_mark(random, worn->rlim_cur);
  if (can_be_worn(mark, *worn)) job_processes.mark = mark;
  return job_processes;
}

bool is_job_process(const JobProcesses& job_processes, int pid) {
  if (!job_processes.mark) return carries_token(pid, job_processes.token);
  const auto worn = worn_by(pid);
  return worn && is_marked(worn->rlim_cur, *job_processes.mark);
}

std::vector<int> line_of(int pid) {
  std::vector<int> line;
  while (pid > 0) {
    line.push_back(pid);
    const auto stat = read_stat(pid);
    pid = stat ? stat->parent : 0;
  }
  return line;
}

bool descends_from_worker(const JobProcesses& job_processes, int pid, int owner,
                          const std::vector<int>& subreapers) {
  for (auto stat = read_stat(pid); stat && stat->parent > 0; stat = read_stat(stat->parent)) {
    if (stat->parent == owner) return true;
    if (std::find(subreapers.begin(), subreapers.end(), stat->parent) != subreapers.end())
      return true;
    if (!carries_token(stat->parent, job_processes.token)) return false;
  }
  return false;
}

Search::Search(JobProcesses job_processes, int owner, std::vector<int> subreapers, Eye eye)
    : job_processes_(std::move(job_processes)),
      eye_(std::move(eye)),
      owner_(owner),
      subreapers_(std::move(subreapers)) {
  void* const shared =
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) looked_at_ = static_cast<int*>(shared);
}

Search::~Search() {
  if (looked_at_ != nullptr) ::munmap(looked_at_, sizeof(int));
}

void Search::kill_all(const std::set<int>& groups, int word) {
  for (int child = 0; child < bounds::watchdog_children_max; ++child) {
    if (look_in_a_child(groups, word) != End::held_up) return;
    if (looked_at_ != nullptr) passed_over_.insert(*looked_at_);
  }
}

Search::End Search::look_in_a_child(const std::set<int>& groups, int word) {
  // Reap abandoned children that have exited by now.
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  int ends[2];
  const bool has_pipe = ::pipe2(ends, O_CLOEXEC) == 0;
  const auto child = has_pipe ? ::fork() : -1;
  if (child == 0) {
    look_until_none_is_left(groups);
    ::_exit(0);
  }
  if (has_pipe) ::close(ends[1]);
  // If no process can be created, search in this one.
  if (child < 0) look_until_none_is_left(groups);
  const auto end = child < 0 ? End::none_is_left : await(child, ends[0], word);
  if (has_pipe) ::close(ends[0]);
  return end;
}

Search::End Search::await(int child, int done, int word) const {
  constexpr auto timeout = std::chrono::milliseconds(bounds::watchdog_child_timeout);
  while (true) {
    const int before = looked_at_ != nullptr ? *looked_at_ : 0;
    pollfd either[2] = {{done, POLLIN, 0}, {word, POLLIN, 0}};
    const int told = ::poll(either, 2, static_cast<int>(timeout.count()));
    if (told < 0 && errno == EINTR) continue;
    if (told > 0 && either[0].revents != 0) {
      ::waitpid(child, nullptr, 0);
      return End::none_is_left;
    }
    if (told == 0 && looked_at_ != nullptr && *looked_at_ != before) continue;
    // It dies of this as soon as the kernel lets it.
    ::kill(child, SIGKILL);
    return told > 0 ? End::called_back : End::held_up;
  }
}

void Search::look_until_none_is_left(const std::set<int>& groups) const {
  for (int look = 0; look < bounds::watchdog_looks_max && kill_once(groups); ++look) {
    const std::timespec pause{0, std::chrono::nanoseconds(bounds::watchdog_pause).count()};
    ::nanosleep(&pause, nullptr);
  }
}

// True if there was a process to kill. Then another pass is needed.
bool Search::kill_once(const std::set<int>& groups) const {
  bool found = false;
  for (const int pid : all_processes()) {
    if (pid == ::getpid() || pid == ::getppid() || passed_over_.contains(pid)) continue;
    if (looked_at_ != nullptr) *looked_at_ = pid;
    // With a mark, one call rules out most processes.
    if (job_processes_.mark && !eye_(job_processes_, pid)) continue;
    found |= kill_checked(pid, SIGKILL, [&](int held) { return belongs(held, groups); });
  }
  if (looked_at_ != nullptr) *looked_at_ = 0;
  return found;
}

// Decides by mark or token. A process that cleared its environment is recognized by a known group
// whose leader is gone: while the group has a member, its id is not reused.
bool Search::belongs(int pid, const std::set<int>& groups) const {
  const auto stat = read_stat(pid);
  if (!stat || !stat->alive()) return false;
  if (job_processes_.mark) return eye_(job_processes_, pid);
  if (groups.contains(stat->group) && !read_stat(stat->group)) return true;
  return eye_(job_processes_, pid) &&
         descends_from_worker(job_processes_, pid, owner_, subreapers_);
}

}  // namespace cpprun::io
