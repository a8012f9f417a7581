#include "launcher/io/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cpprun::io {

bool LogFile::open(const std::string& path, bool emptied) {
  if (path.empty()) return true;
  path_ = path;
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (emptied ? O_TRUNC : 0);
  file_.reset(::open(path.c_str(), flags, 0644));
  return bool(file_);
}

void LogFile::write(std::string_view bytes, const Complain& complain) {
  while (file_ && !bytes.empty()) {
    const auto put = ::write(file_.get(), bytes.data(), bytes.size());
    if (put > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
    } else if (errno != EINTR) {
      if (std::exchange(complained_, true)) return;
      return complain(fmt::format(
          "cpprun: cannot write \"{}\": {}; what does not fit is lost, the job goes on\n", path_,
          std::strerror(errno)));
    }
  }
}

}  // namespace cpprun::io
