// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/brief.h"

#include <algorithm>
#include <string>

#include "proto/bounds.h"
#include "proto/link/codec.h"
#include "proto/utf8.h"

namespace cpprun::link {

namespace {

// Cuts before the character that does not fit, never inside one, and says that it did.
void cut(std::string& text, std::size_t bytes_max) {
  constexpr std::string_view mark = "…";
  if (text.size() <= bytes_max) return;
  text.resize(length_within(text, bytes_max > mark.size() ? bytes_max - mark.size() : 0));
  text += mark;
}

void cut_texts(Failure& failure, std::size_t bytes_max) {
  cut(failure.message, bytes_max);
  cut(failure.host, bytes_max);
  cut(failure.cause, bytes_max);
}

void cut_texts(Finish& finish, std::size_t bytes_max) {
  cut(finish.reason, bytes_max);
  if (finish.root) cut_texts(*finish.root, bytes_max);
}

constexpr std::size_t time_bytes_max = bounds::round_frame_bytes_max / 2;

bool fits(const Finish& finish, std::size_t bytes_max = bounds::round_frame_bytes_max) {
  return encode(finish).size() <= bytes_max;
}

// What took most is told first.
void sort_time(Finish& finish) {
  if (!finish.time) return;
  auto& lost = finish.time->lost;
  std::stable_sort(lost.begin(), lost.end(), [](const LostTime& left, const LostTime& right) {
    return sum_of(left.time) > sum_of(right.time);
  });
}

// What does not fit beside a short sentence is not told.
void shorten_time(Finish& finish) {
  if (!finish.time) return;
  auto& lost = finish.time->lost;
  while (!fits(Finish{.reason = {}, .time = finish.time}, time_bytes_max)) {
    if (lost.empty()) return finish.time.reset();
    lost.pop_back();
  }
}

}  // namespace

Finish brief(Finish finish) {
  std::size_t text_bytes = bounds::round_frame_bytes_max / 4;
  sort_time(finish);
  auto& others = finish.consequences;
  others.resize(std::min(others.size(), bounds::consequences_brief_max));
  cut_texts(finish, text_bytes);
  // Mostly that is all: where the whole has no more than the times may have, they have not either.
  if (fits(finish, time_bytes_max)) return finish;
  shorten_time(finish);
  // Where the time went is worth less than why the job ended, the names of consequences less than
  // half a sentence. Halving ends: a frame of none of them has fewer than 300 bytes.
  while (true) {
    cut_texts(finish, text_bytes);
    if (fits(finish)) return finish;
    if (finish.time && !finish.time->lost.empty()) {
      finish.time->lost.pop_back();
    } else if (finish.time) {
      finish.time.reset();
    } else if (text_bytes < 128 && !others.empty()) {
      others.pop_back();
    } else {
      text_bytes /= 2;
    }
  }
}

Sealed brief(Sealed sealed) {
  // An escaped character has up to six bytes.
  std::size_t text_bytes = bounds::round_frame_bytes_max / 4;
  while (sealed.failed_before) {
    cut_texts(*sealed.failed_before, text_bytes);
    if (encode(sealed).size() <= bounds::round_frame_bytes_max) break;
    text_bytes /= 2;
    if (text_bytes < 24) sealed.failed_before.reset();
  }
  return sealed;
}

Status brief(Status status) {
  // More than fit if every number of a row but the first had one digit: encoding a thousand rows
  // again and again would take a while.
  constexpr std::size_t rows_max = status_frame_bytes_max / (2 * FiguresRow{}.size());
  if (status.workers.size() > rows_max) status.workers.resize(rows_max);
  while (encode(status).size() > status_frame_bytes_max) status.workers.pop_back();
  return status;
}

}  // namespace cpprun::link
