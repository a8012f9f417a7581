// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/lines.h"

#include <doctest/doctest.h>

#include <string>

#include "launcher/output/bounds.h"
#include "tests/launcher/output/line_probe.h"

namespace line_mux_test {

using namespace cpprun;
using cpprun::probe::Screen;

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

TEST_CASE("an over-long line that is interrupted gets its prefix again") {
  Screen screen;
  screen.take(std::string(bounds::line_bytes_max + 1, 'x'));
  screen.take("b\n", 1);
  screen.take("y\n");
  CHECK(screen.text == "A:" + std::string(bounds::line_bytes_max, 'x') + "\nB:b\nA:xy\n");
}

TEST_CASE("another worker's output ends an unfinished line") {
  Screen screen;
  screen.take("(Pdb) ");
  screen.wait();
  screen.take("from b\n", 1);
  screen.take("continue\n");
  CHECK(screen.text == "A:(Pdb) \nB:from b\nA:continue\n");
  screen.take("? ");
  screen.wait();
  screen.take("from b\n", 1);
  screen.finish();
  screen.take("b\n", 1);
  CHECK(screen.text == "A:(Pdb) \nB:from b\nA:continue\nA:? \nB:from b\nB:b\n");
}

}  // namespace line_mux_test
