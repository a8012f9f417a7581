// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/python_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "launcher/hang/observation.h"
#include "proto/text.h"

namespace cpprun::hang {

namespace {

constexpr std::string_view cookie = "xdebugpy";
// Of _Py_DebugOffsets: 64-bit numbers behind the cookie.
constexpr std::size_t version_at = 1;
constexpr std::size_t free_threaded_at = 2;
constexpr std::size_t numbers_max = 84;
// No structure of Python is larger.
constexpr std::uint64_t offset_max = 1 << 20;
constexpr std::size_t interpreters_max = 8;
// The main thread is last and always shown: 128 frames of at most 600 bytes.
constexpr std::size_t others_bytes_max = memory_traceback_bytes_max - 128 * 600 - 100;
// A list that ends nowhere is a loop.
constexpr std::size_t threads_walked_max = 20'000;
constexpr std::size_t frames_max_of_stack = 128;
constexpr std::size_t text_characters_max = 1024;
// Of the longest function that is read.
constexpr std::size_t line_table_bytes_max = 1 << 20;
// Of one process, over all attempts. Sixty-four deep stacks need a tenth of each.
constexpr std::size_t bytes_read_max = 64 << 20;
constexpr std::size_t reads_max = 500'000;
// Of a process that runs meanwhile. Two equal results in a row are taken for consistent.
constexpr int attempts_max = 4;
// After that. A thread that has the GIL for a moment has gone on in one of these pauses.
constexpr int gil_pauses = 3;

// Where a version of Python has its offsets: an index into the numbers of _Py_DebugOffsets.
struct Layout {
  std::uint64_t minor;
  std::size_t interpreters;
  std::size_t next_interpreter, first_thread, gil_locked, gil_holder;
  std::size_t next_thread, current_frame, thread_id, native_id;
  std::size_t previous, executable, instruction, owner;
  std::size_t file, name, line_table, first_line, code_bytes;
  std::size_t bytes_size, bytes_data;
  std::size_t text_state, text_length, ascii_size;
  unsigned state_shift;  // of the kind of a string, in its state
};
constexpr std::array layouts = {
    Layout{13, 5,  8,  9,  17, 18, 21, 23, 24, 25, 29, 30, 31,
           33, 35, 36, 38, 39, 43, 65, 66, 68, 69, 70, 2},
    Layout{14, 5,  8,  9,  18, 19, 24, 26, 27, 28, 32, 33, 34,
           36, 40, 41, 43, 44, 48, 75, 76, 78, 79, 80, 16},
};
// A frame with this owner, or a larger one, is that of C code that called Python.
constexpr unsigned char owner_c = 3;

constexpr std::string_view changed = "its memory changed while it was read";
constexpr std::string_view too_large = "its stacks are too large";

struct Unreadable : std::runtime_error {
  explicit Unreadable(std::string_view reason) : runtime_error(std::string(reason)) {}
};

// What one process may cost.
struct Budget {
  std::size_t bytes = bytes_read_max;
  std::size_t reads = reads_max;
};

class Reader {
 public:
  Reader(const MemoryAccess& memory, Budget& budget, std::uint64_t runtime)
      : memory_(memory), budget_(budget), runtime_(runtime) {
    offsets_.resize(numbers_max);
    take(runtime, {reinterpret_cast<char*>(offsets_.data()), numbers_max * sizeof(std::uint64_t)});
    const std::uint64_t version = offsets_[version_at];
    const std::uint64_t minor = version >> 16U & 0xFFU;
    const auto* const found = std::ranges::find(layouts, minor, &Layout::minor);
    // Before the final release, the layout of a version changes.
    if (version >> 24U != 3 || found == layouts.end() || (version & 0xF0U) != 0xF0U) {
      throw Unreadable(fmt::format("the memory of Python {}.{} has an unknown layout",
                                   version >> 24U & 0xFFU, minor));
    }
    if (offsets_[free_threaded_at] != 0) throw Unreadable("Python is free-threaded");
    at_ = *found;
  }

  PythonMemory all(int main_thread) {
    PythonMemory result;
    std::string main;
    std::size_t walked = 0;
    std::size_t others = 0;
    std::uint64_t interpreter = number(runtime_, at_.interpreters);
    for (std::size_t i = 0; interpreter != 0 && i < interpreters_max; ++i) {
      std::uint64_t thread = number(interpreter, at_.first_thread);
      for (; thread != 0 && walked < threads_walked_max; ++walked) {
        const bool is_main = number(thread, at_.native_id) == static_cast<unsigned>(main_thread);
        if (is_main) {
          if (!main.empty()) throw Unreadable(changed);
          main = thread_text(thread);
          result.main_holds_gil = number<std::int32_t>(interpreter, at_.gil_locked) == 1 &&
                                  number(interpreter, at_.gil_holder) == thread;
        } else if (others < threads_max - 1) {
          const std::string text = thread_text(thread);
          const bool fits = result.traceback.size() + text.size() <= others_bytes_max;
          if (fits) result.traceback += text;
          others = fits ? others + 1 : threads_max;
        }
        thread = number(thread, at_.next_thread);
      }
      interpreter = number(interpreter, at_.next_interpreter);
    }
    if (main.empty()) throw Unreadable("its main thread is not in the memory of Python");
    result.traceback += main;
    return result;
  }

 private:
  // Of a function.
  struct Code {
    std::string file;
    std::string name;
    std::uint64_t lines = 0;  // the table's address
    int first_line = 0;
  };

  void take(std::uint64_t address, std::span<char> to) const {
    if (budget_.reads == 0 || budget_.bytes < to.size()) throw Unreadable(too_large);
    --budget_.reads;
    budget_.bytes -= to.size();
    if (!memory_.read(address, to)) throw Unreadable(changed);
  }
  std::uint64_t offset(std::size_t index) const {
    if (offsets_[index] > offset_max) throw Unreadable("the layout of Python's memory is invalid");
    return offsets_[index];
  }
  template <class N = std::uint64_t>
  N number(std::uint64_t object, std::size_t index) const {
    N value{};
    take(object + offset(index), {reinterpret_cast<char*>(&value), sizeof value});
    return value;
  }

  std::string thread_text(std::uint64_t thread) {
    std::string text =
        fmt::format("Thread 0x{:016x} (most recent call first):\n", number(thread, at_.thread_id));
    std::uint64_t frame = number(thread, at_.current_frame);
    std::size_t count = 0;
    for (; frame != 0 && count < frames_max_of_stack; frame = number(frame, at_.previous)) {
      ++count;
      if (number<unsigned char>(frame, at_.owner) >= owner_c) continue;
      // The lowest bits are not part of the address.
      const std::uint64_t code = number(frame, at_.executable) & ~std::uint64_t{7};
      text += frame_text(code, number(frame, at_.instruction));
    }
    return count == 0 ? text + "  <no Python frame>\n" : text;
  }

  // Many threads wait in the same place, and a recursion is in few.
  const std::string& frame_text(std::uint64_t address, std::uint64_t instruction) {
    const auto [found, is_new] = frames_.try_emplace({address, instruction});
    if (!is_new) return found->second;
    const Code& code = code_at(address);
    const std::int64_t line = line_at(address, code, instruction);
    return found->second = fmt::format("  File \"{}\", line {} in {}\n", code.file,
                                       line > 0 ? fmt::to_string(line) : "???", code.name);
  }

  const Code& code_at(std::uint64_t address) {
    const auto [found, is_new] = codes_.try_emplace(address);
    Code& code = found->second;
    if (!is_new) return code;
    code.file = text_at(number(address, at_.file), text_bytes_max);
    code.name = text_at(number(address, at_.name), name_bytes_max);
    code.first_line = number<std::int32_t>(address, at_.first_line);
    code.lines = number(address, at_.line_table);
    return code;
  }

  // Does not keep the table, which may have a megabyte.
  std::int64_t line_at(std::uint64_t address, const Code& code, std::uint64_t instruction) const {
    const std::uint64_t begin = address + offset(at_.code_bytes);
    const std::uint64_t size = number(code.lines, at_.bytes_size);
    if (size > line_table_bytes_max) throw Unreadable("a table of lines is too large");
    std::string table(size, '\0');
    take(code.lines + offset(at_.bytes_data), table);
    if (instruction < begin) return 0;
    constexpr std::uint64_t instruction_bytes = 2;
    return line_of(table, code.first_line, (instruction - begin) / instruction_bytes);
  }

  // Bytes of 1, 2 or 4 for each character, behind a head that is shorter if all are ASCII.
  std::string text_at(std::uint64_t address, std::size_t bytes_max) const {
    const auto state = number<std::uint32_t>(address, at_.text_state) >> at_.state_shift;
    const std::size_t width = state & 7U;
    const bool is_compact = (state & 8U) != 0;
    const bool is_ascii = (state & 16U) != 0;
    const std::uint64_t length = number(address, at_.text_length);
    if (!is_compact || (width != 1 && width != 2 && width != 4)) throw Unreadable("invalid text");
    constexpr std::uint64_t utf8_bytes = 16;  // a size and a pointer
    const std::uint64_t begin = address + offset(at_.ascii_size) + (is_ascii ? 0 : utf8_bytes);
    std::string bytes(std::min<std::uint64_t>(length, text_characters_max) * width, '\0');
    take(begin, bytes);
    if (is_ascii) return plain_line(bytes, bytes_max);
    std::string text;
    for (std::size_t at = 0; at < bytes.size(); at += width) {
      std::uint32_t code = 0;
      std::memcpy(&code, bytes.data() + at, width);
      append_utf8(text, code);
    }
    return plain_line(text, bytes_max);
  }

  // The table has an entry for each range of instructions: a byte with the highest bit set, which
  // has the kind and the length, and then numbers without that bit.
  static std::int64_t line_of(std::string_view table, int first_line, std::uint64_t wanted) {
    constexpr unsigned kind_one_line = 10, kind_no_column = 13, kind_long = 14, kind_none = 15;
    std::uint64_t end = 0;
    std::int64_t line = first_line;  // a table of a megabyte cannot overflow it
    for (std::size_t at = 0; at < table.size();) {
      const auto head = static_cast<unsigned char>(table[at++]);
      const unsigned kind = head >> 3U & 15U;
      if (kind == kind_long || kind == kind_no_column) {
        line += signed_number(table.substr(at));
      } else if (kind >= kind_one_line && kind < kind_no_column) {
        line += kind - kind_one_line;
      }
      end += (head & 7U) + 1;
      if (wanted < end) {
        const bool is_valid = line <= std::numeric_limits<int>::max();
        return kind == kind_none || !is_valid ? 0 : line;
      }
      while (at < table.size() && (static_cast<unsigned char>(table[at]) & 0x80U) == 0) ++at;
    }
    return 0;
  }

  // Six bits in each byte, the lowest ones first; the seventh says that more follow. The lowest bit
  // of all is the sign.
  static std::int64_t signed_number(std::string_view bytes) {
    std::uint64_t number = 0;
    unsigned shift = 0;
    for (const char each : bytes) {
      const auto byte = static_cast<unsigned char>(each);
      number |= (byte & 63U) << shift;
      shift += 6;
      if ((byte & 64U) == 0 || shift > 24) break;
    }
    const auto size = static_cast<std::int64_t>(number >> 1U);
    return (number & 1U) != 0 ? -size : size;
  }

  const MemoryAccess& memory_;
  Budget& budget_;
  std::uint64_t runtime_;
  std::vector<std::uint64_t> offsets_;
  Layout at_ = {};
  std::map<std::uint64_t, Code> codes_;  // by address; at most as many as frames
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> frames_;  // of code, instruction
};

Result<PythonMemory> read_once(const MemoryAccess& memory, Budget& budget, std::uint64_t runtime,
                               int main_thread) {
  try {
    return Reader(memory, budget, runtime).all(main_thread);
  } catch (const Unreadable& error) {
    return failure(error.what());
  }
}

Result<PythonMemory> read_consistently(const MemoryAccess& memory, Budget& budget,
                                       std::uint64_t runtime, int main_thread) {
  Result<PythonMemory> last = failure(std::string(changed));
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    Result<PythonMemory> next = read_once(memory, budget, runtime, main_thread);
    if (!next && next.error().reason == too_large) {
      if (!last) last = std::move(next);
      break;
    }
    const bool is_consistent = next && last
                                   ? *next == *last
                                   : !next && !last && next.error().reason == last.error().reason;
    if (is_consistent) return next;
    if (next || !last) last = std::move(next);
  }
  if (last) last->main_holds_gil = false;
  return last;
}

}  // namespace

std::optional<std::size_t> find_python(std::string_view memory) {
  for (std::size_t at = memory.find(cookie); at != memory.npos; at = memory.find(cookie, at + 1)) {
    if (at % alignof(std::uint64_t) == 0) return at;
  }
  return std::nullopt;
}

bool has_known_layout(std::string_view version) {
  constexpr std::string_view major = "3.";
  if (!version.starts_with(major) || version.ends_with('t')) return false;
  const auto minor = leading_number<std::uint64_t>(version.substr(major.size()));
  return minor && std::ranges::find(layouts, *minor, &Layout::minor) != layouts.end();
}

Result<PythonMemory> read_python(const MemoryAccess& memory, std::uint64_t runtime,
                                 int main_thread) {
  Budget budget;
  auto result = read_consistently(memory, budget, runtime, main_thread);
  for (int pause = 0; result && result->main_holds_gil && pause < gil_pauses; ++pause) {
    memory.pause();
    const auto later = read_once(memory, budget, runtime, main_thread);
    result->main_holds_gil = later && *later == *result;
  }
  return result;
}

}  // namespace cpprun::hang
