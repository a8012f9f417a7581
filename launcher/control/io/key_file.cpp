// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/key_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "launcher/control/key_text.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/secret_file.h"

namespace cpprun::io {

namespace {

constexpr mode_t own_file = 0600;
constexpr mode_t own_folder = 0700;

tl::unexpected<Error> refused(const std::string& path, std::string_view why) {
  return failure(fmt::format("cannot make a secret in \"{}\": {}", plain_line(path), why));
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The folders that were made for a file. They go again unless it is kept.
class MadeFolders {
 public:
  MadeFolders() = default;
  ~MadeFolders() {
    // Where somebody has put something there meanwhile, they stay.
    for (auto each = made_.rbegin(); each != made_.rend(); ++each) (void)::rmdir(each->c_str());
  }
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  // errno says why not.
  bool make(const std::string& folder) {
    if (::mkdir(folder.c_str(), own_folder) == 0) {
      made_.push_back(folder);
      return true;
    }
    if (errno == EEXIST) return true;
    if (errno != ENOENT || folder_of(folder) == folder || !make(folder_of(folder))) return false;
    if (::mkdir(folder.c_str(), own_folder) == 0) {
      made_.push_back(folder);
      return true;
    }
    return errno == EEXIST;
  }
  void keep() { made_.clear(); }

 private:
  std::vector<std::string> made_;
};

// A file that we have made. It goes again unless it is kept.
class MadeFile {
 public:
  explicit MadeFile(std::string path)
      : path_(std::move(path)),
        file_(
            ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, own_file)),
        is_ours_(static_cast<bool>(file_)) {}
  ~MadeFile() {
    if (is_ours_) (void)::unlink(path_.c_str());
  }
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;

  explicit operator bool() const { return static_cast<bool>(file_); }

  // Up to the disk, which may be full only then. errno says why not.
  bool fill(std::string_view text) {
    return write_all(file_.get(), text) == text.size() && ::fsync(file_.get()) == 0 &&
           ::close(file_.release()) == 0;
  }
  void keep() { is_ours_ = false; }

 private:
  std::string path_;
  FileDescriptor file_;
  bool is_ours_;
};

// So that the name, too, outlives a power cut. A disk that does not know how has done its best.
void settle(const std::string& path) {
  const FileDescriptor folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) (void)::fsync(folder.get());
}

// Hidden, so that a daemon whose folder it is in passes it over.
std::string draft_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const auto begin = slash == path.npos ? 0 : slash + 1;
  return fmt::format("{}.{}.new", path.substr(0, begin), path.substr(begin));
}

// Written to the draft's place, which nobody else has meanwhile.
Result<Secret> add_by_draft(const std::string& path, const std::string& draft, const Secret& secret,
                            MadeFile& file) {
  auto old = read_secret_file(path);
  if (!old) return tl::unexpected(std::move(old.error()));
  if (find_secret(*old, secret.id) != nullptr) {
    return refused(path, fmt::format("it has one that is called \"{}\" already", secret.id));
  }
  if (old->size() == secrets_max) {
    return refused(path,
                   fmt::format("it has {} already, as many as there can be; take the lines of "
                               "those out of it that nobody uses any more",
                               secrets_max));
  }
  Secret first = old->front();
  old->insert(old->begin(), secret);
  std::string text = secrets_text(*old);
  const bool is_written = file.fill(text);
  const int error = errno;
  ::explicit_bzero(text.data(), text.size());
  if (!is_written) return refused(path, errno_text(error) + "; it is as it was");
  if (::rename(draft.c_str(), path.c_str()) != 0) {
    return refused(path, errno_text(errno) + "; it is as it was");
  }
  file.keep();
  return first;
}

}  // namespace

Result<void> create_key_file(const std::string& path, std::string_view text) {
  MadeFolders folders;
  if (!folders.make(folder_of(path))) return refused(path, errno_text(errno));
  MadeFile file(path);
  if (!file) {
    const int error = errno;
    if (error != EEXIST) return refused(path, errno_text(error));
    return refused(path,
                   "there is a file, and none is written over; --add puts a new secret before the "
                   "one that it has, which stays valid until its line is taken out");
  }
  if (!file.fill(text)) return refused(path, errno_text(errno) + "; nothing is left there");
  // Where it cannot be taken from, it should not lie: a disk without modes, a folder of
  // everybody's.
  if (const auto read = read_secret_file(path); !read) {
    return tl::unexpected(Error{read.error().reason});
  }
  file.keep();
  folders.keep();
  settle(path);
  return {};
}

Result<Secret> add_to_key_file(const std::string& path, const Secret& secret) {
  const std::string draft = draft_of(path);
  // Whoever has it may change the file. Two who read the same old ones would lose one new one.
  MadeFile file(draft);
  if (!file && errno == EEXIST) {
    return refused(path,
                   fmt::format("somebody else adds one at this moment; where nobody does, one "
                               "has been interrupted: remove {}",
                               plain_line(draft)));
  }
  if (!file) return refused(path, errno_text(errno));
  auto first = add_by_draft(path, draft, secret, file);
  if (first) settle(path);
  return first;
}

}  // namespace cpprun::io
