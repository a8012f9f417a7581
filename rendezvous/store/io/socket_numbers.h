// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The descriptors of accepted connections, as a set that a forked child can read even if another
// thread of its parent was changing it.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cpprun {

class SocketNumbers {
 public:
  SocketNumbers() = default;
  SocketNumbers(const SocketNumbers&) = delete;
  SocketNumbers& operator=(const SocketNumbers&) = delete;

  // Makes room for this number, so that add() needs no memory.
  void reserve(int fd) { (void)page_of(fd, true); }
  void add(int fd) noexcept {
    if (Page* const page = page_of(fd, false)) word_of(*page, fd) |= bit_of(fd);
  }
  void remove(int fd) noexcept {
    if (Page* const page = page_of(fd, false)) word_of(*page, fd) &= ~bit_of(fd);
  }
  template <class Visitor>
  void each(Visitor visit) const {
    int fd = 0;
    for (const Page* page = &first_; page != nullptr; page = page->next.load()) {
      for (const auto& word : page->words) {
        for (std::size_t at = 0; at < word_bits; ++at, ++fd) {
          if ((word.load() & bit_of(fd)) != 0) visit(fd);
        }
      }
    }
  }

 private:
  static constexpr std::size_t word_bits = 64;
  static constexpr std::size_t words_per_page = 64;
  // A page never moves, and is linked when it is complete.
  struct Page {
    ~Page() { delete next.load(); }
    std::array<std::atomic<std::uint64_t>, words_per_page> words{};
    std::atomic<Page*> next{nullptr};
  };

  static std::uint64_t bit_of(int fd) {
    return std::uint64_t{1} << (static_cast<std::size_t>(fd) % word_bits);
  }
  static std::atomic<std::uint64_t>& word_of(Page& page, int fd) {
    return page.words[static_cast<std::size_t>(fd) / word_bits % words_per_page];
  }
  Page* page_of(int fd, bool is_made) {
    Page* page = &first_;
    std::size_t left = static_cast<std::size_t>(fd) / (word_bits * words_per_page);
    for (; page != nullptr && left > 0; --left) {
      if (is_made && page->next.load() == nullptr) page->next = new Page;
      page = page->next.load();
    }
    return page;
  }

  Page first_;
};

}  // namespace cpprun
