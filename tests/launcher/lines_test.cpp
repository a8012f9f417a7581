#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "launcher/last_lines.h"
#include "launcher/line_cutter.h"
#include "launcher/line_merger.h"
#include "proto/bounds.h"

using namespace cpprun;

namespace {

// What a console would show of one speaker's bytes, prefix "P:".
struct Screen {
  LineMerger merger;
  std::string text;
  LineCutter cutters[2];
  void take(std::string_view bytes, int speaker = 0) {
    cutters[speaker].take(bytes, [&](const Piece& piece) { show(speaker, piece); });
  }
  void finish(int speaker = 0) {
    cutters[speaker].finish([&](const Piece& piece) { show(speaker, piece); });
  }
  void show(int speaker, const Piece& piece) {
    merger.add(speaker, speaker == 0 ? "A:" : "B:", piece, text);
  }
};

}  // namespace

TEST_CASE("a line written in parts is shown once, whole, with one prefix") {
  Screen screen;
  screen.take("half ");
  CHECK(screen.text.empty());
  screen.take("and half\nnext\nopen");
  CHECK(screen.text == "A:half and half\nA:next\n");
  screen.finish();
  CHECK(screen.text == "A:half and half\nA:next\nA:open");
}

TEST_CASE("lines of two workers never mix, not even one without an end") {
  Screen screen;
  screen.take("from a");
  screen.take("from b\n", 1);
  screen.take(" goes on\n");
  CHECK(screen.text == "B:from b\nA:from a goes on\n");
  screen.take("no end");
  screen.finish();
  screen.take("b\n", 1);
  CHECK(screen.text == "B:from b\nA:from a goes on\nA:no end\nB:b\n");
}

TEST_CASE("an over-long line passes in pieces with its prefix once, and costs no memory") {
  Screen screen;
  const std::string chunk(bounds::line_bytes_max / 2, 'x');
  for (int i = 0; i < 8; ++i) screen.take(chunk);
  screen.take("\n");
  CHECK(screen.text == "A:" + std::string(4 * bounds::line_bytes_max, 'x') + "\n");
}

TEST_CASE("an over-long line that is interrupted gets its prefix again") {
  Screen screen;
  screen.take(std::string(bounds::line_bytes_max, 'x'));
  screen.take("b\n", 1);
  screen.take("y\n");
  CHECK(screen.text == "A:" + std::string(bounds::line_bytes_max, 'x') + "\nB:b\nA:y\n");
}

TEST_CASE("an over-long line is not cut inside a character") {
  std::string line(bounds::line_bytes_max - 1, 'x');
  line += "\xE2\x82\xAC";  // the euro sign, two of its bytes beyond the bound
  std::vector<std::string> pieces;
  LineCutter cutter;
  const auto keep = [&](const Piece& piece) { pieces.emplace_back(piece.text); };
  cutter.take(line, keep);
  cutter.finish(keep);
  CHECK(pieces.size() == 2);
  CHECK(pieces.back() == "\xE2\x82\xAC");
}

TEST_CASE("bytes that are no text at all pass unchanged") {
  Screen screen;
  const std::string bytes("\x80\x80\x00\xFF\xC3\n", 6);
  screen.take(bytes);
  CHECK(screen.text == "A:" + bytes);
}

TEST_CASE("a progress bar is shown as it is redrawn, each time with the prefix") {
  Screen screen;
  screen.take("\r10%");
  screen.take("\r20%");
  CHECK(screen.text == "A:\rA:10%\r");
  screen.take("\r\n");
  CHECK(screen.text == "A:\rA:10%\rA:20%\r\n");
}

TEST_CASE("a line that ends with return and newline is one line, however it arrives") {
  Screen screen;
  screen.take("dos\r");
  screen.take("\nnext\r\n");
  CHECK(screen.text == "A:dos\r\nA:next\r\n");
}

TEST_CASE("the last lines are the last ones, bounded in number and in bytes") {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  const auto lines = last_lines_of(text);
  CHECK(lines.size() == bounds::last_lines_max);
  CHECK(lines.back() == "line 99");

  const auto long_lines =
      last_lines_of(std::string(10 * bounds::last_lines_bytes_max, 'x') + "\nend");
  CHECK(long_lines.back() == "end");
  CHECK(long_lines.front().size() <= bounds::last_lines_bytes_max);
}

TEST_CASE("a progress bar leaves no trace in the last lines, and empty lines at the end neither") {
  CHECK(last_lines_of("10%\r20%\r30%\rdone\nError: no\n\n\n") ==
        std::vector<std::string>{"done", "Error: no"});
}
