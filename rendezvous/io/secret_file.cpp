// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proto/secure/secret.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr unsigned mode_bits = 07777;
constexpr unsigned others_bits = 077;
constexpr unsigned write_bits_of_others = 022;

struct Trouble {
  std::string reason;
  bool is_absent = false;        // there is no such file, or none that this user can get to
  bool is_out_of_reach = false;  // unknown: its directory cannot be opened
};
template <class T>
using Attempt = tl::expected<T, Trouble>;

tl::unexpected<Trouble> refused(const std::string& path, std::string_view why) {
  return tl::unexpected(
      Trouble{fmt::format("cannot use the secret in \"{}\": {}", plain_line(path), why)});
}

tl::unexpected<Trouble> unreadable(const std::string& path, int error_number) {
  return refused(
      path, fmt::format("{}; make it readable for uid {}", errno_text(error_number), ::geteuid()));
}

tl::unexpected<Trouble> absent(const std::string& path, int error_number) {
  auto trouble =
      error_number != ENOENT
          ? unreadable(path, error_number)
          : refused(
                path,
                fmt::format("{}; create it with \"cpprunctl keygen {}\" and copy it to every node",
                            errno_text(error_number), plain_line(path)));
  trouble.value().is_absent = true;
  trouble.value().is_out_of_reach = error_number != ENOENT && error_number != ENOTDIR;
  return trouble;
}

// Wiped when it goes.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { ::explicit_bzero(bytes_.data(), bytes_.size()); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // False where it cannot be read; errno says why.
  bool fill(int descriptor) {
    while (size_ < bytes_.size()) {
      const ssize_t got = ::read(descriptor, bytes_.data() + size_, bytes_.size() - size_);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return false;
      if (got == 0) return true;
      size_ += static_cast<std::size_t>(got);
    }
    return true;
  }
  bool is_full() const { return size_ == bytes_.size(); }
  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, secret_file_bytes_max + 1> bytes_;  // one more, to see that there is more
  std::size_t size_ = 0;
};

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

bool is_in_group(gid_t group) {
  if (group == ::getegid()) return true;
  std::array<gid_t, NGROUPS_MAX> groups{};
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  return std::find(groups.begin(), groups.begin() + std::max(count, 0), group) !=
         groups.begin() + std::max(count, 0);
}

// A file of root's that a group of this user may read and not change: root has given it
// to that group so that this user can read it, as a pod's fsGroup does.
mode_t bits_of_own_group(const struct stat& file) {
  const bool is_given = file.st_uid == 0 && ::geteuid() != 0 && is_in_group(file.st_gid);
  return is_given ? S_IRGRP : 0;
}

// Why the file must not hold a secret; empty if it may.
std::string objection(const struct stat& file, const std::string& path) {
  if (!S_ISREG(file.st_mode)) {
    return fmt::format("{}, not a regular file", kind_of(file.st_mode));
  }
  const uid_t self = ::geteuid();
  if (file.st_uid != self && file.st_uid != 0) {
    return fmt::format(
        "owned by uid {}, but this program runs as uid {}: that user could change it; use a file "
        "that is owned by you or by root",
        file.st_uid, self);
  }
  if ((file.st_mode & others_bits & ~bits_of_own_group(file)) != 0) {
    return fmt::format("accessible to other users (mode {:04o}); chmod 600 {}",
                       file.st_mode & mode_bits, plain_line(path));
  }
  if (file.st_size > static_cast<off_t>(secret_file_bytes_max)) {
    return fmt::format("{} bytes, and a secret file has at most {}; check the path", file.st_size,
                       secret_file_bytes_max);
  }
  return {};
}

Attempt<Secrets> read_open(int descriptor, const std::string& path) {
  Buffer buffer;
  if (!buffer.fill(descriptor)) return refused(path, errno_text(errno));
  if (buffer.is_full()) {
    return refused(path, fmt::format("more than {} bytes; check the path", secret_file_bytes_max));
  }
  auto secrets = parse_secrets(buffer.text(), make_key_memory);
  if (!secrets) return refused(path, secrets.error().reason);
  return std::move(*secrets);
}

bool is_of_self_or_root(const struct stat& facts) {
  return facts.st_uid == ::geteuid() || facts.st_uid == 0;
}

// Why other users could redirect a link in or below this directory; empty if they cannot. In a
// sticky directory only the owner of an entry can replace it, and entries are checked as well.
std::string objection_to_directory(const struct stat& facts, const std::string& shown) {
  if (!is_of_self_or_root(facts)) {
    return fmt::format("its directory \"{}\" is owned by uid {}: that user could change it",
                       plain_line(shown), facts.st_uid);
  }
  if ((facts.st_mode & write_bits_of_others) == 0 || (facts.st_mode & S_ISVTX) != 0) return {};
  return fmt::format("its directory \"{}\" is writable by other users (mode {:04o})",
                     plain_line(shown), facts.st_mode & mode_bits);
}

// A file behind links: in the mounted Secret of Kubernetes each key is one, and so is the directory
// that it leads to. Each directory on the way is judged, and each link.
class LinkWalk {
 public:
  // Where it leads in the end: a file that can be opened by that name in that directory.
  struct End {
    FileDescriptor directory;
    std::string name;
  };
  // By those words, from that directory. `path` is for refusals.
  static Attempt<End> follow(FileDescriptor begin, std::string_view words,
                             const std::string& path) {
    LinkWalk walk(path);
    walk.add(words);
    if (auto begun = walk.enter(std::move(begin)); !begun) return tl::unexpected(begun.error());
    while (!walk.rest_.empty()) {
      auto end = walk.step();
      if (!end) return tl::unexpected(end.error());
      if (*end) return std::move(**end);
    }
    return refused(path, "a link to a directory, not to a regular file");
  }

 private:
  explicit LinkWalk(const std::string& path) : path_(path) {}

  void add(std::string_view words) {
    std::deque<std::string> parts;
    for (const std::string_view part : split(words, '/')) {
      if (!part.empty() && part != ".") parts.emplace_back(part);
    }
    rest_.insert(rest_.begin(), parts.begin(), parts.end());
  }
  FileDescriptor at_root_if(std::string_view words) {
    if (!words.starts_with('/')) return std::move(directory_);
    shown_.clear();
    return FileDescriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }

  // That directory is where it goes on.
  Attempt<bool> enter(FileDescriptor directory) {
    struct stat facts {};
    if (!directory || ::fstat(directory.get(), &facts) != 0)
      return refused(path_, errno_text(errno));
    const std::string shown = shown_.empty() ? "/" : shown_;
    if (std::string why = objection_to_directory(facts, shown); !why.empty()) {
      return refused(path_, why);
    }
    directory_ = std::move(directory);
    return true;
  }

  // One part of the path; the end, where that is it.
  Attempt<std::optional<End>> step() {
    const std::string name = std::move(rest_.front());
    rest_.pop_front();
    FileDescriptor next(::openat(directory_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    // A dangling link is an error: a user without a secret would have no link.
    if (!next && errno == ENOENT) {
      return refused(path_, fmt::format("a symbolic link to \"{}/{}\", which does not exist",
                                        plain_line(shown_), plain_line(name)));
    }
    if (!next) return unreadable(path_, errno);
    struct stat facts {};
    if (::fstat(next.get(), &facts) != 0) return refused(path_, errno_text(errno));
    if (S_ISLNK(facts.st_mode)) return follow_link(next, facts);
    if (rest_.empty()) return End{std::move(directory_), name};
    shown_ += "/" + name;
    if (auto entered = enter(std::move(next)); !entered) return tl::unexpected(entered.error());
    return std::nullopt;
  }

  Attempt<std::optional<End>> follow_link(const FileDescriptor& link, const struct stat& facts) {
    if (!is_of_self_or_root(facts)) {
      return refused(
          path_,
          fmt::format("a symbolic link in its path is owned by uid {}: that user could change it",
                      facts.st_uid));
    }
    if (++links_ > links_max) return refused(path_, errno_text(ELOOP));
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
    if (size < 0) return refused(path_, errno_text(errno));
    const std::string_view words(target.data(), static_cast<std::size_t>(size));
    add(words);
    if (auto entered = enter(at_root_if(words)); !entered) return tl::unexpected(entered.error());
    return std::nullopt;
  }

  static constexpr int links_max = 40;  // as the kernel follows

  const std::string& path_;
  std::string shown_;
  FileDescriptor directory_;
  std::deque<std::string> rest_;
  int links_ = 0;
};

// Where a file that is a link is looked for again, step by step.
enum class Links { from_path, from_directory, none };

Attempt<LinkWalk::End> end_of_links(const FileDescriptor& directory, const std::string& name,
                                    const std::string& path, Links links) {
  if (links == Links::from_directory) {
    return LinkWalk::follow(FileDescriptor(::fcntl(directory.get(), F_DUPFD_CLOEXEC, 0)), name,
                            path);
  }
  const char* const begin = path.starts_with('/') ? "/" : ".";
  return LinkWalk::follow(FileDescriptor(::open(begin, O_PATH | O_DIRECTORY | O_CLOEXEC)), path,
                          path);
}

Attempt<Secrets> read_in(const FileDescriptor& directory, const std::string& name,
                         const std::string& path, Links links) {
  // Do not wait for a pipe without a writer, and do not follow a link to a place that other users
  // control.
  const FileDescriptor file(::openat(directory.get(), name.c_str(),
                                     O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    const int error = errno;
    if (error == ELOOP && links != Links::none) {
      auto end = end_of_links(directory, name, path, links);
      if (!end) return tl::unexpected(std::move(end.error()));
      return read_in(end->directory, end->name, path, Links::none);
    }
    if (error == ELOOP) return refused(path, "replaced by a symbolic link while it was read");
    if (error == ENXIO) return refused(path, "a socket, not a regular file");
    if (error == ENOENT) return absent(path, error);
    return unreadable(path, error);
  }
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return refused(path, errno_text(errno));
  if (const std::string why = objection(facts, path); !why.empty()) return refused(path, why);
  return read_open(file.get(), path);
}

Attempt<Secrets> read_at(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string name = slash == path.npos ? path : path.substr(slash + 1);
  if (name.empty() || name == "." || name == "..")
    return refused(path, "a directory, not a regular file");
  const std::string parent = slash == path.npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor directory(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return absent(path, errno);
  struct stat facts {};
  if (::fstat(directory.get(), &facts) != 0) return refused(path, errno_text(errno));
  if ((facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return refused(path,
                   fmt::format("its directory is writable by all users (mode {:04o}); chmod o-w {}",
                               facts.st_mode & mode_bits, plain_line(parent)));
  }
  return read_in(directory, name, path, Links::from_path);
}

template <class T>
Result<T> told(Attempt<T> attempt) {
  if (!attempt) return failure(std::move(attempt.error().reason));
  return std::move(*attempt);
}

// What is wrong where no file was named.
std::optional<Trouble> trouble_with(const std::string& path) {
  auto secrets = read_at(path);
  return secrets ? std::nullopt : std::optional(std::move(secrets.error()));
}

}  // namespace

bool may_have_secret(const std::string& path) {
  const auto trouble = trouble_with(path);
  return !trouble || !trouble->is_absent || trouble->is_out_of_reach;
}

std::string secret_out_of_reach(const std::string& named, const Environment& environment) {
  const SecretPath place = secret_path(named, environment);
  if (place.was_named || place.path.empty()) return {};
  const auto trouble = trouble_with(place.path);
  return trouble && trouble->is_out_of_reach ? trouble->reason : std::string();
}

Result<Secrets> read_secret_file(const std::string& path) {
  return told(read_at(path));
}

Result<Secrets> read_secret_in(const FileDescriptor& directory, const std::string& name,
                               const std::string& path) {
  return told(read_in(directory, name, path, Links::from_directory));
}

Result<Secrets> find_secrets(const std::string& named, const Environment& environment) {
  const SecretPath place = secret_path(named, environment);
  if (place.path.empty()) return Secrets{};
  if (place.was_named && place.path == "-") return told(read_open(STDIN_FILENO, "standard input"));
  auto secrets = read_at(place.path);
  if (!secrets && secrets.error().is_absent && !place.was_named) return Secrets{};
  return told(std::move(secrets));
}

std::shared_ptr<Key> make_key_memory() {
  // Whole pages, the unit in which the kernel excludes memory from core files.
  void* const page =
      ::mmap(nullptr, sizeof(Key), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::bad_alloc();
  // Additional protection only: these may fail on an old kernel or with a limit on locked memory,
  // and that must not prevent the use of a secret.
  (void)::madvise(page, sizeof(Key), MADV_DONTDUMP);
  (void)::madvise(page, sizeof(Key), MADV_WIPEONFORK);
  (void)::mlock(page, sizeof(Key));
  return {new (page) Key{}, [](Key* key) {
            ::explicit_bzero(key->data(), key->size());
            (void)::munmap(key, sizeof(Key));
          }};
}

}  // namespace cpprun
