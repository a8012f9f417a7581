// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "proto/plain_text.h"
#include "proto/secure/io/key_memory.h"
#include "proto/text.h"
#include "rendezvous/secret_place.h"

namespace cpprun {
namespace {

constexpr unsigned mode_bits = 07777;
constexpr unsigned others_bits = 077;

struct Trouble {
  std::string reason;
  bool is_absent = false;        // there is no such file, or none that this user can get to
  bool is_out_of_reach = false;  // nobody can tell: its folder cannot be opened
};
template <class T>
using Attempt = tl::expected<T, Trouble>;

tl::unexpected<Trouble> refused(const std::string& path, std::string_view why) {
  return tl::unexpected(
      Trouble{fmt::format("cannot take a secret from \"{}\": {}", plain_line(path), why)});
}

tl::unexpected<Trouble> unreadable(const std::string& path, int error_number) {
  return refused(path, fmt::format("{}; it has to be readable for uid {}", errno_text(error_number),
                                   ::geteuid()));
}

tl::unexpected<Trouble> absent(const std::string& path, int error_number) {
  auto trouble = error_number != ENOENT
                     ? unreadable(path, error_number)
                     : refused(path, fmt::format("{}; \"cpprunctl keygen {}\" makes one, for all "
                                                 "nodes the same",
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
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Why it is no place for a secret; empty where it is one.
std::string objection(const struct stat& file, const std::string& path) {
  if (!S_ISREG(file.st_mode)) {
    return fmt::format("it is {}; give a file", kind_of(file.st_mode));
  }
  const uid_t self = ::geteuid();
  if (file.st_uid != self && file.st_uid != 0) {
    return fmt::format(
        "it belongs to uid {}, who could change it, and this runs as uid {}; give a file of your "
        "own, or of root",
        file.st_uid, self);
  }
  if ((file.st_mode & others_bits) != 0) {
    return fmt::format("others than its owner may use it (mode {:04o}); chmod 600 {}",
                       file.st_mode & mode_bits, plain_line(path));
  }
  if (file.st_size > static_cast<off_t>(secret_file_bytes_max)) {
    return fmt::format("it has {} bytes, and no file of secrets has more than {}; is it another?",
                       file.st_size, secret_file_bytes_max);
  }
  return {};
}

Attempt<Secrets> read_open(int descriptor, const std::string& path) {
  Buffer buffer;
  if (!buffer.fill(descriptor)) return refused(path, errno_text(errno));
  if (buffer.is_full()) {
    return refused(path, fmt::format("it has more than {} bytes", secret_file_bytes_max));
  }
  auto secrets = parse_secrets(buffer.text(), make_key_memory);
  if (!secrets) return refused(path, secrets.error().reason);
  return std::move(*secrets);
}

Attempt<Secrets> read_in(const FileDescriptor& folder, const std::string& name,
                         const std::string& path) {
  // A pipe that nobody writes to must not be waited for, nor a link be followed to where others
  // decide what lies.
  const FileDescriptor file(::openat(folder.get(), name.c_str(),
                                     O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    const int error = errno;
    if (error == ELOOP) return refused(path, "it is a symbolic link; give the file it leads to");
    if (error == ENXIO) return refused(path, "it is a socket; give a file");
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
    return refused(path, "it is a folder; give a file");
  const std::string parent = slash == path.npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor folder(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return absent(path, errno);
  struct stat facts {};
  if (::fstat(folder.get(), &facts) != 0) return refused(path, errno_text(errno));
  if ((facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return refused(path, fmt::format("everybody may replace files in its folder (mode {:04o}); "
                                     "chmod o-w {}",
                                     facts.st_mode & mode_bits, plain_line(parent)));
  }
  return read_in(folder, name, path);
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
  const SecretPlace place = secret_place(named, environment);
  if (place.was_named || place.path.empty()) return {};
  const auto trouble = trouble_with(place.path);
  return trouble && trouble->is_out_of_reach ? trouble->reason : std::string();
}

Result<Secrets> read_secret_file(const std::string& path) {
  return told(read_at(path));
}

Result<Secrets> read_secret_in(const FileDescriptor& folder, const std::string& name,
                               const std::string& path) {
  return told(read_in(folder, name, path));
}

Result<Secrets> find_secrets(const std::string& named, const Environment& environment) {
  const SecretPlace place = secret_place(named, environment);
  if (place.path.empty()) return Secrets{};
  if (place.was_named && place.path == "-") return told(read_open(STDIN_FILENO, "standard input"));
  auto secrets = read_at(place.path);
  if (!secrets && secrets.error().is_absent && !place.was_named) return Secrets{};
  return told(std::move(secrets));
}

}  // namespace cpprun
