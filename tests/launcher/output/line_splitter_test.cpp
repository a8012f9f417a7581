// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/lines.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "launcher/output/bounds.h"
#include "tests/launcher/output/line_probe.h"

namespace line_splitter_test {

using namespace cpprun;
using cpprun::probe::Screen;

TEST_CASE("a line written in parts is shown once, whole, with one prefix") {
  Screen screen;
  screen.take("half ");
  CHECK(screen.text.empty());
  screen.take("and half\nnext\nopen");
  CHECK(screen.text == "A:half and half\nA:next\n");
  screen.finish();
  CHECK(screen.text == "A:half and half\nA:next\nA:open");
}

TEST_CASE("an over-long line passes in pieces with one prefix, and needs no memory") {
  Screen screen;
  const std::string chunk(bounds::line_bytes_max / 2, 'x');
  for (int i = 0; i < 8; ++i) screen.take(chunk);
  screen.take("\n");
  CHECK(screen.text == "A:" + std::string(4 * bounds::line_bytes_max, 'x') + "\n");
}

TEST_CASE("an over-long line is not cut inside a character") {
  std::string line(bounds::line_bytes_max - 1, 'x');
  line += "\xE2\x82\xAC";  // the euro sign, two of its bytes beyond the bound
  std::vector<std::string> pieces;
  LineSplitter splitter;
  const auto keep = [&](const Piece& piece) { pieces.emplace_back(piece.text); };
  splitter.take(line, keep);
  splitter.finish(keep);
  CHECK(pieces.size() == 2);
  CHECK(pieces.back() == "\xE2\x82\xAC");
}

TEST_CASE("an over-long line that arrives in parts is not cut inside a character either") {
  std::vector<std::string> pieces;
  LineSplitter splitter;
  const auto keep = [&](const Piece& piece) { pieces.emplace_back(piece.text); };
  splitter.take(std::string(bounds::line_bytes_max - 1, 'x') + "\xE2", keep);
  splitter.take("\x82", keep);
  splitter.take("\xAC", keep);
  splitter.finish(keep);
  CHECK(pieces.size() == 2);
  CHECK(pieces.back() == "\xE2\x82\xAC");
}

TEST_CASE("bytes that are no valid text pass unchanged") {
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

TEST_CASE("a line that ends with carriage return and newline is one line, however it arrives") {
  Screen screen;
  screen.take("dos\r");
  screen.take("\nnext\r\n");
  CHECK(screen.text == "A:dos\r\nA:next\r\n");
}

TEST_CASE("an unfinished line is shown after a moment, and continues without another prefix") {
  Screen screen;
  screen.take("(Pdb) ");
  CHECK(screen.text.empty());
  screen.wait();
  CHECK(screen.text == "A:(Pdb) ");
  screen.wait();
  screen.take("conti");
  screen.wait();
  screen.take("nue\nnext\n");
  CHECK(screen.text == "A:(Pdb) continue\nA:next\n");
  screen.take("(Pdb) ");
  screen.wait();
  screen.finish();
  CHECK(screen.text == "A:(Pdb) continue\nA:next\nA:(Pdb) ");
}

TEST_CASE("output shown early is still part of its piece, for files and filters") {
  std::vector<std::string> pieces;
  LineSplitter splitter;
  const auto keep = [&](const Piece& piece) {
    pieces.push_back(std::string(piece.text) + "|" + std::to_string(piece.shown));
  };
  splitter.take("lo", keep);
  CHECK(splitter.has_unfinished());
  CHECK(splitter.show_unfinished()->text == "lo");
  CHECK_FALSE(splitter.has_unfinished());
  CHECK_FALSE(splitter.show_unfinished().has_value());
  splitter.take("ss=3\nnext\n", keep);
  CHECK(pieces == std::vector<std::string>{"loss=3\n|2", "next\n|0"});
}

TEST_CASE("half a character and a carriage return that may end the line are not shown early") {
  Screen screen;
  screen.take("10\xE2\x82");
  screen.wait();
  CHECK(screen.text == "A:10");
  screen.take("\xAC\r");
  screen.wait();
  CHECK(screen.text == "A:10\xE2\x82\xAC");
  screen.take("\nnext\r");
  screen.wait();
  screen.take("again\n");
  CHECK(screen.text == "A:10\xE2\x82\xAC\r\nA:next\rA:again\n");
}

TEST_CASE("an over-long line that was shown early is neither cut nor repeated") {
  Screen screen;
  screen.take(std::string(bounds::line_bytes_max, 'x'));
  screen.wait();
  screen.take("yz\n");
  CHECK(screen.text == "A:" + std::string(bounds::line_bytes_max, 'x') + "yz\n");
}

}  // namespace line_splitter_test
