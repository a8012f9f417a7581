// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/text.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace top_frame_test {

using namespace cpprun;

namespace {

TopView many_nodes(int count) {
  TopView view{.jobs = {},
               .job = JobView{.id = "seen", .state = "running", .now = 100, .since = 40}};
  for (int node = 0; node < count; ++node) {
    view.nodes.push_back({.host = "host-" + std::to_string(count - node),
                          .node = node,
                          .state = node == 3 ? "drained" : "running",
                          .since = 40,
                          .silence = node * 0.1,
                          .pid = 1000 + node,
                          .workers = 8,
                          .base_rank = 8 * node});
  }
  return view;
}

const Canvas small_terminal{.width = 80};
constexpr std::size_t small_height = 24;

// The first row under the titles.
std::string first_row(const TopView& view, const TopSettings& settings) {
  return top_frame(view, settings, small_terminal, small_height)[4];
}

}  // namespace

TEST_CASE("a frame fits the terminal, whatever its size") {
  for (const auto& [width, height] : {std::pair{80U, 24U}, {20U, 5U}, {1U, 1U}, {300U, 100U}}) {
    const auto lines = top_frame(many_nodes(200), {}, {.width = width}, height);
    CHECK(lines.size() <= height);
    CHECK(
        std::ranges::all_of(lines, [w = width](const auto& line) { return width_of(line) <= w; }));
  }
}

TEST_CASE("rows that do not fit are counted, and can be scrolled to") {
  const auto view = many_nodes(40);
  const auto lines = top_frame(view, {}, small_terminal, small_height);
  REQUIRE(lines.size() == 24);
  CHECK(lines.back().starts_with("1-19 of 40 · q quit"));
  const auto last = top_frame(view, {.first = 1000}, small_terminal, small_height);
  CHECK(last.back().starts_with("22-40 of 40"));
  CHECK(last[22].find("1039") != std::string::npos);
}

TEST_CASE("nodes are sorted by the chosen column, in either direction") {
  const auto view = many_nodes(9);
  CHECK(first_row(view, {}).find("host-9") != std::string::npos);
  CHECK(first_row(view, {.order = TopOrder::host}).find("host-1") != std::string::npos);
  CHECK(first_row(view, {.order = TopOrder::state}).find("drained") != std::string::npos);
  CHECK(first_row(view, {.order = TopOrder::heard}).find("host-1 ") != std::string::npos);
  CHECK(first_row(view, {.is_reversed = true}).find("host-1 ") != std::string::npos);
}

TEST_CASE("several jobs are shown as a list, with errors above it") {
  TopView view{.jobs = {{{.id = "b", .state = "running", .since = 5}, "/x"},
                        {{.id = "a", .state = "gathering", .since = 1}, "/y"}},
               .trouble = "cannot reach /z"};
  const auto lines = top_frame(view, {}, small_terminal, small_height);
  CHECK(lines[0] == "2 jobs");
  CHECK(lines[1] == "cannot reach /z");
  CHECK(lines[4].starts_with("a "));
  CHECK(top_frame(view, {.order = TopOrder::since}, small_terminal, small_height)[4].starts_with(
      "b"));
  CHECK(top_frame(view, {.order = TopOrder::state}, small_terminal, small_height)[4].starts_with(
      "a"));
}

TEST_CASE("the second line shows the last failure, or what is waited for") {
  TopView view = many_nodes(1);
  CHECK(top_frame(view, {}, small_terminal, small_height)[1] == "no worker has failed");
  view.job->rounds = {{.round = 1, .failure = FailureView{.rank = 2, .host = "h", .exit_code = 9}}};
  CHECK(top_frame(view, {}, small_terminal, small_height)[1] ==
        "last failure: rank 2 on h: exit code 9");
  view.job->waits_for = "1 of 2 nodes have joined";
  CHECK(top_frame(view, {}, small_terminal, small_height)[1] == "1 of 2 nodes have joined");
}

TEST_CASE("keys sort, reverse, scroll and quit") {
  TopSettings settings;
  CHECK(press(settings, "h") == KeyEffect::changed);
  CHECK(settings.order == TopOrder::host);
  CHECK(press(settings, "s") == KeyEffect::changed);
  CHECK(press(settings, "l") == KeyEffect::changed);
  CHECK(press(settings, "t") == KeyEffect::changed);
  CHECK(settings.order == TopOrder::since);
  CHECK(press(settings, "n") == KeyEffect::changed);
  CHECK(settings.order == TopOrder::number);
  CHECK(press(settings, "r") == KeyEffect::changed);
  CHECK(settings.is_reversed);
  CHECK(press(settings, "\x1b[B") == KeyEffect::changed);
  CHECK(press(settings, " ") == KeyEffect::changed);
  CHECK(settings.first == 11);
  CHECK(press(settings, "\x1b[5~") == KeyEffect::changed);
  CHECK(press(settings, "k") == KeyEffect::changed);
  CHECK(press(settings, "k") == KeyEffect::changed);
  CHECK(settings.first == 0);
  CHECK(press(settings, "x") == KeyEffect::none);
  CHECK(press(settings, "q") == KeyEffect::quit);
}

}  // namespace top_frame_test
