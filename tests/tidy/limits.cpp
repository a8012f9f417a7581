// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/limits.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "tests/tidy/figures.h"
#include "tests/tidy/prose.h"

namespace cpprun::tidy {

namespace {

constexpr int stale_percent = 3;  // more than a room has, and its line is out of date

using Counts = std::array<int, 2>;

struct Table {
  std::string_view path;
  std::string_view comment;
  std::array<std::string_view, 2> columns;
  std::size_t judged;     // so many of the columns; the others are for information
  std::string_view cure;  // where a room has more
  std::map<std::string, Counts> rooms = {};
};

Table sizes_of(const Tree& tree) {
  Table table{
      "tests/tidy/sizes.txt",
      "# The C++ files of each room of the product, and their lines. tidy_test fails where a "
      "room has\n"
      "# more, or clearly less; ./dev sizes writes this table.\n",
      {"files", "lines"},
      2,
      "remove something, or run ./dev sizes and say in the commit why the room grows"};
  for (const auto& room : figures_of(tree)) {
    if (is_product(room.room)) table.rooms[room.room] = {room.files, room.lines};
  }
  return table;
}

Table words_of(const Tree& tree) {
  Table table{
      "tests/tidy/prose.txt",
      "# Words to avoid (tests/tidy/prose.cpp) in the comments, strings and docs of each room. "
      "tidy_test\n"
      "# fails where a room has more, or clearly less; the rate is for information. ./dev "
      "sizes writes\n"
      "# this table, unless all rooms together have more.\n",
      {"words to avoid", "per 10,000"},
      1,
      "use other words; CPPRUN_SHOW_WORDS=1 tidy_test lists where they are"};
  for (const auto& [room, figures] : prose_figures_of(tree)) {
    table.rooms[room] = {figures.found, static_cast<int>(std::lround(figures.per_10000()))};
  }
  return table;
}

std::optional<int> number_in(const std::string& word) {
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

// A line of the table, against what its room has.
void compare(const Table& table, const Row& row, std::vector<Violation>& violations) {
  const auto add = [&](std::string rule, std::string_view cure) {
    violations.push_back({std::string(table.path), row.line, std::move(rule), std::string(cure)});
  };
  const auto room = table.rooms.find(row.words.front());
  if (room == table.rooms.end()) {
    add(fmt::format("{} does not exist", row.words.front()), "run ./dev sizes");
    return;
  }
  for (std::size_t i = 0; i < table.judged; ++i) {
    const auto limit = row.words.size() == 3 ? number_in(row.words[i + 1]) : std::nullopt;
    const int count = room->second[i];
    if (!limit) {
      add("this line is not a room and two numbers", "run ./dev sizes");
      return;
    }
    const std::string rule = fmt::format("{} has {} {}, and this line says {}", room->first, count,
                                         table.columns[i], *limit);
    if (count > *limit) add(rule, table.cure);
    if (100L * *limit > (100L + stale_percent) * count) add(rule, "run ./dev sizes");
  }
}

std::vector<Violation> check(const Table& table, const Tree& tree) {
  std::vector<Violation> violations;
  auto missing = table.rooms;
  if (const auto* list = source_at(tree, table.path)) {
    for (const auto& row : rows_of(list->text)) {
      missing.erase(row.words.front());
      compare(table, row, violations);
    }
  }
  for (const auto& [room, counts] : missing) {
    violations.push_back({std::string(table.path), 0, fmt::format("{} is not in this table", room),
                          "run ./dev sizes"});
  }
  return violations;
}

Source written(const Table& table) {
  std::string text =
      fmt::format("# SPDX-License-{}\n{}# {:<26}{:>16}{:>12}\n", "Identifier: BSD-3-Clause",
                  table.comment, "room", table.columns[0], table.columns[1]);
  for (const auto& [room, counts] : table.rooms) {
    text += fmt::format("{:<28}{:>16}{:>12}\n", room, counts[0], counts[1]);
  }
  return {std::string(table.path), text};
}

}  // namespace

std::vector<Violation> check_sizes(const Tree& tree) {
  return check(sizes_of(tree), tree);
}

std::vector<Violation> check_prose(const Tree& tree) {
  return check(words_of(tree), tree);
}

std::vector<Source> limits_of(const Tree& tree) {
  const Table words = words_of(tree);
  int more = 0;
  for (const auto& [room, counts] : words.rooms) more += counts[0];
  const auto* list = source_at(tree, words.path);
  for (const auto& row : list == nullptr ? std::vector<Row>{} : rows_of(list->text)) {
    if (row.words.size() == 3) more -= number_in(row.words[1]).value_or(0);
  }
  std::vector<Source> tables = {written(sizes_of(tree))};
  if (list == nullptr || more <= 0) tables.push_back(written(words));
  return tables;
}

}  // namespace cpprun::tidy
