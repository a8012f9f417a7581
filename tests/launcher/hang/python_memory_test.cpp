// SPDX-License-Identifier: BSD-3-Clause
// An image of the memory of a Python 3.14, whose offsets are those of no real one. Real processes
// are in io/process_memory_test.cpp.
#include "launcher/hang/python_memory.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/hang/observation.h"

namespace python_memory_test {

using namespace cpprun;
using namespace cpprun::hang;

namespace {

constexpr std::uint64_t base = 0x7f0000000000;
constexpr std::uint64_t version_3_14 = 0x030E00F0;
constexpr int main_thread = 812;

// Objects follow each other. Each has its members 8 bytes apart, so the offsets are multiples of 8.
class Image {
 public:
  Image() : bytes_(84 * 8, '\0') {
    std::memcpy(bytes_.data(), "xdebugpy", 8);
    offset(1, version_3_14);
    // Of the runtime, which begins with the table itself: the first number behind it.
    offset(5, 84 * 8);
    constexpr std::pair<int, int> structures[] = {{8, 12}, {24, 5}, {32, 5},
                                                  {40, 9}, {75, 2}, {78, 3}};
    for (const auto& [first, count] : structures) {
      for (int at = 0; at < count; ++at) {
        offset(first + at, 8 * static_cast<std::uint64_t>(at));
      }
    }
    put(0);
  }

  void offset(int index, std::uint64_t value) {
    std::memcpy(bytes_.data() + 8 * index, &value, sizeof value);
  }
  std::uint64_t here() const { return base + bytes_.size(); }
  void put(std::uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void set(std::uint64_t address, std::uint64_t value) {
    std::memcpy(bytes_.data() + (address - base), &value, sizeof value);
  }
  // In 3.14 the kind of a string begins at bit 16 of its state.
  std::uint64_t text(std::string_view data, std::uint64_t characters, unsigned width,
                     bool is_ascii) {
    const std::uint64_t address = here();
    put((width | 8U | (is_ascii ? 16U : 0U)) << 16U);
    put(characters);
    if (!is_ascii) put(0), put(0);
    bytes_ += data;
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return address;
  }
  std::uint64_t text(std::string_view data) { return text(data, data.size(), 1, true); }
  std::uint64_t bytes(std::string_view data) {
    const std::uint64_t address = here();
    put(data.size());
    bytes_ += data;
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return address;
  }
  // Its members: file, name, qualified name, table of lines, first line, four more.
  std::uint64_t code(std::uint64_t file, std::uint64_t name, std::uint64_t lines,
                     std::uint64_t first_line) {
    const std::uint64_t address = here();
    for (const std::uint64_t each : {file, name, std::uint64_t{0}, lines, first_line}) put(each);
    for (int at = 0; at < 5; ++at) put(0);
    return address;
  }
  // Members: previous, code, instruction, -, owner.
  std::uint64_t frame(std::uint64_t previous, std::uint64_t code, std::uint64_t instruction,
                      std::uint64_t owner = 0) {
    const std::uint64_t address = here();
    constexpr std::uint64_t code_bytes_offset = 64;
    // A tag is in the lowest bit.
    put(previous), put(code | 1U), put(code + code_bytes_offset + 2 * instruction), put(0);
    put(owner);
    return address;
  }
  // Members: next, -, current frame, thread id, native id.
  std::uint64_t thread(std::uint64_t next, std::uint64_t frame, std::uint64_t id,
                       std::uint64_t native_id) {
    const std::uint64_t address = here();
    for (const std::uint64_t each : {next, std::uint64_t{0}, frame, id, native_id}) put(each);
    return address;
  }
  // Members: next, first thread, and the GIL's at 10 and 11.
  void interpreter(std::uint64_t first_thread, std::uint64_t gil_holder) {
    set(base + 84 * 8, here());
    put(0), put(first_thread);
    for (int at = 2; at < 10; ++at) put(0);
    put(gil_holder != 0 ? 1 : 0), put(gil_holder);
  }

  std::string& data() { return bytes_; }
  bool copy(std::uint64_t address, std::span<char> to) const {
    if (address < base || address - base > bytes_.size()) return false;
    if (bytes_.size() - (address - base) < to.size()) return false;
    std::memcpy(to.data(), bytes_.data() + (address - base), to.size());
    return true;
  }
  MemoryAccess access() const {
    return {.read = [this](auto address, auto to) { return copy(address, to); }, .pause = [] {}};
  }
  Result<PythonMemory> read() const { return read_python(access(), base, main_thread); }

 private:
  std::string bytes_;
};

// Two instructions each: in the first line, one line further (with columns), 40 further, 3 back,
// and without a line.
constexpr std::string_view lines(
    "\x81\x00"
    "\xD9\x01\x02"
    "\xE9\x50\x01"
    "\xF1\x07\x00\x01\x02"
    "\xF9",
    14);

Image image(std::uint64_t instruction, std::string_view line_table = lines) {
  Image image;
  const auto table = image.bytes(line_table);
  const auto code = image.code(image.text("/a/train.py"), image.text("step"), table, 10);
  const auto outer = image.code(image.text("/a/\xC3\xA9\x01.py", 9, 1, false),
                                image.text({"z\x00\xAC\x20", 4}, 2, 2, false), table, 100);
  const auto begin = image.frame(0, outer, 1);
  const auto entry = image.frame(begin, 0, 0, /*owner=*/3);
  const auto inner = image.frame(entry, code, instruction);
  const auto main = image.thread(0, inner, 0xAB, main_thread);
  const auto other = image.thread(main, 0, 0xCD, 900);
  image.interpreter(other, main);
  return image;
}

int line_at(std::uint64_t instruction, std::string_view line_table = lines) {
  const auto read = image(instruction, line_table).read();
  REQUIRE(read.has_value());
  return parse_traceback(read->traceback)->back().frames.front().line;
}

}  // namespace

TEST_CASE("the stacks of all threads are read from the memory of Python, the main one last") {
  const auto read = image(0).read();
  REQUIRE_MESSAGE(read.has_value(), read.error().reason);
  CHECK(read->main_holds_gil);
  CHECK(read->traceback ==
        "Thread 0x00000000000000cd (most recent call first):\n"
        "  <no Python frame>\n"
        "Thread 0x00000000000000ab (most recent call first):\n"
        "  File \"/a/train.py\", line 10 in step\n"
        "  File \"/a/\xC3\x83\xC2\xA9?.py\", line 100 in z\xE2\x82\xAC\n");
}

TEST_CASE("the line of an instruction is found in the table of lines") {
  CHECK(line_at(0) == 10);
  CHECK(line_at(1) == 10);
  CHECK(line_at(2) == 11);
  CHECK(line_at(4) == 51);
  CHECK(line_at(6) == 48);
  CHECK(line_at(8) == 0);
  CHECK(line_at(10) == 0);
}

TEST_CASE("memory that is not that of a known Python has a reason") {
  const auto reason = [](const Image& changed) { return changed.read().error().reason; };
  Image other = image(0);
  other.offset(1, 0x031500F0);
  CHECK(reason(other) == "the memory of Python 3.21 has an unknown layout");
  other.offset(1, 0x030E00A5);  // an alpha
  CHECK(reason(other) == "the memory of Python 3.14 has an unknown layout");
  other.offset(1, version_3_14);
  other.offset(2, 1);
  CHECK(reason(other) == "Python is free-threaded");
  other.offset(2, 0);
  other.offset(9, std::uint64_t{1} << 40);
  CHECK(reason(other) == "the layout of Python's memory is invalid");
  CHECK(read_python(image(0).access(), base, 7).error().reason ==
        "its main thread is not in the memory of Python");
}

TEST_CASE("memory that ends, or whose lists have no end, is read without harm") {
  const std::size_t whole = image(0).data().size();
  for (std::size_t size = 0; size < whole; size += 8) {
    Image cut = image(0);
    cut.data().resize(size);
    CHECK_FALSE(cut.read());
  }
  Image loop = image(0);
  const auto frame = loop.here();
  loop.put(frame);
  for (int at = 0; at < 3; ++at) loop.put(0);
  loop.put(3);
  const auto thread = loop.thread(0, frame, 1, main_thread);
  loop.interpreter(thread, 0);
  const auto read = loop.read();
  REQUIRE(read.has_value());
  CHECK_FALSE(read->main_holds_gil);
  loop.set(thread, thread);
  CHECK(loop.read().error().reason == "its memory changed while it was read");
}

TEST_CASE("a result that changes from one reading to the next is read again") {
  const Image one = image(0);
  const Image two = image(2);
  int reads = 0;
  const MemoryAccess changing{.read =
                                  [&](std::uint64_t address, std::span<char> to) {
                                    if (address == base) ++reads;
                                    return (reads == 2 ? two : one).copy(address, to);
                                  },
                              .pause = [&] { CHECK(reads >= 4); }};
  CHECK(read_python(changing, base, main_thread).value() == one.read().value());
}

TEST_CASE("a main thread that has the GIL for a moment does not hold it") {
  const Image busy = image(0);
  Image idle = image(0);
  idle.interpreter(base, 0);
  const Image moved = image(2);
  const auto holds_gil = [&](const Image& later, int pauses) {
    int paused = 0;
    const MemoryAccess access{.read =
                                  [&](std::uint64_t address, std::span<char> to) {
                                    return (paused < pauses ? busy : later).copy(address, to);
                                  },
                              .pause = [&] { ++paused; }};
    const auto read = read_python(access, base, main_thread);
    REQUIRE(read.has_value());
    CHECK(read->traceback == busy.read()->traceback);
    return read->main_holds_gil;
  };
  CHECK(holds_gil(busy, 1));
  CHECK_FALSE(holds_gil(idle, 1));
  CHECK_FALSE(holds_gil(idle, 2));
  CHECK_FALSE(holds_gil(moved, 1));
}

TEST_CASE("lines that no function has are not shown, however they add up") {
  std::string far;
  std::string back;
  for (int at = 0; at < 8; ++at) {
    far += "\xF1\x7E\x7F\x7F\x7F\x3F";   // 2^29 - 1 lines further
    back += "\xF1\x7F\x7F\x7F\x7F\x3F";  // back
  }
  CHECK(line_at(0, far) == (1 << 29) + 9);
  CHECK(line_at(14, far) == 0);
  CHECK(line_at(14, back) == 0);
  CHECK(line_at(30, far + back + std::string(lines)) == 10);
}

namespace {

// A main thread with that many functions, each with the same table of lines.
Image deep(std::size_t table_bytes, int frames) {
  Image image;
  const auto table = image.bytes(std::string(table_bytes, '\x81'));
  const auto name = image.text(std::string(1000, 'x'));
  std::uint64_t frame = 0;
  for (int at = 0; at < frames; ++at) {
    frame = image.frame(frame, image.code(name, name, table, 10), 0);
  }
  std::uint64_t thread = image.thread(0, frame, 1, main_thread);
  for (std::uint64_t at = 0; at < 70; ++at) thread = image.thread(thread, frame, 2, 900 + at);
  image.interpreter(thread, 0);
  return image;
}

}  // namespace

TEST_CASE("what one process costs is bounded, and then it is not read again") {
  constexpr std::size_t bytes_max = 64 << 20;
  const auto bytes_read = [](const Image& image, const std::string& reason) {
    std::size_t bytes = 0;
    const MemoryAccess access{.read =
                                  [&](std::uint64_t address, std::span<char> to) {
                                    bytes += to.size();
                                    return image.copy(address, to);
                                  },
                              .pause = [] {}};
    const auto read = read_python(access, base, main_thread);
    CHECK((read ? "" : read.error().reason) == reason);
    return bytes;
  };
  CHECK(bytes_read(deep(1 << 20, 128), "its stacks are too large") <= bytes_max);
  CHECK(bytes_read(deep(1 << 10, 128), "") <= bytes_max);
  CHECK(bytes_read(deep((1 << 20) + 1, 1), "a table of lines is too large") <= 100'000);
}

TEST_CASE("memory that takes too long to read is given up") {
  const Image whole = image(0);
  for (int reads_max = 0; reads_max < 100; ++reads_max) {
    int reads = 0;
    const MemoryAccess access{
        .read = [&](std::uint64_t address,
                    std::span<char> to) { return ++reads <= reads_max && whole.copy(address, to); },
        .pause = [] {}};
    const auto read = read_python(access, base, main_thread);
    CHECK(reads <= reads_max + 4);
    if (read) CHECK_FALSE(read->main_holds_gil);
  }
}

TEST_CASE("a long traceback omits threads, but not the main one") {
  const auto read = deep(16, 128).read();
  REQUIRE(read.has_value());
  CHECK(read->traceback.size() <= memory_traceback_bytes_max);
  const auto stacks = parse_traceback(read->traceback);
  REQUIRE(stacks.has_value());
  CHECK(stacks->size() >= 3);
  CHECK(stacks->back().frames.size() == 128);
  CHECK(read->traceback.rfind("Thread 0x0000000000000001 ") > read->traceback.size() / 2);
}

TEST_CASE("the releases whose memory can be read") {
  for (const char* known : {"3.13", "3.13.0", "3.14.2"}) CHECK(has_known_layout(known));
  for (const char* other :
       {"", "3", "3.", "3.1", "3.12.1", "3.15.0", "3.13.0t", "3.130", "2.13.0", "4.13"}) {
    CHECK_FALSE(has_known_layout(other));
  }
}

TEST_CASE("the state of Python is found in its data by its cookie, at an aligned address") {
  CHECK(find_python("..xdebugpy......xdebugpy") == 16);
  CHECK_FALSE(find_python("..xdebugpy"));
  CHECK_FALSE(find_python(""));
}

}  // namespace python_memory_test
