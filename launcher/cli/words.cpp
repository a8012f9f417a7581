// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::size_t word_bytes_shown_max = 100;
constexpr std::size_t notes_max = 3;  // about arguments of the script

// A word that stands where a value is expected but is a flag itself. Negative numbers are values.
bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !std::isdigit(static_cast<unsigned char>(word[1])) &&
         word[1] != '.';
}

class WordReader {
 public:
  WordReader(const std::vector<FlagFacts>& flags, const std::vector<std::string>& words)
      : flags_(flags), words_(words) {}

  TypedWords read() {
    while (next_ < words_.size() && !result_.script) {
      const auto& word = words_[next_++];
      if (word == "--") {
        take_script(true);
        break;
      }
      if (word.starts_with("--")) {
        take_long(word);
      } else if (word.size() > 1 && word[0] == '-') {
        take_short(word);
      } else {
        --next_;
        take_script(false);
      }
    }
    return std::move(result_);
  }

 private:
  // The flags a long spelling may mean: one where it is a full name, else all it begins.
  std::vector<const FlagFacts*> candidates(std::string_view typed) const {
    const auto name = flag_name(typed);
    std::vector<const FlagFacts*> found;
    for (const auto& flag : flags_) {
      if (flag.name == name) return {&flag};
      if (flag.name.starts_with(name)) found.push_back(&flag);
    }
    // What torchrun takes for one of its flags is that here, too.
    if (found.size() > 1) std::erase_if(found, [](const FlagFacts* each) { return each->yields; });
    return found;
  }

  const FlagFacts* by_letter(char letter) const {
    for (const auto& flag : flags_) {
      if (flag.letter == letter) return &flag;
    }
    return nullptr;
  }

  void take_script(bool after_dashes) {
    if (next_ == words_.size()) return;
    result_.script = words_[next_++];
    // torchrun swallows the dashes that follow the script, unless there were some before it.
    if (!after_dashes && next_ < words_.size() && words_[next_] == "--") ++next_;
    result_.arguments.assign(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
    next_ = words_.size();
  }

  void take_long(const std::string& word) {
    const auto equals = word.find('=');
    const auto spelled = word.substr(0, equals);
    const auto found = candidates(std::string_view(spelled).substr(2));
    if (found.empty()) return refuse_unknown(spelled, equals != std::string::npos);
    if (found.size() > 1) {
      std::vector<std::string> names;
      for (const auto* flag : found) names.push_back(fmt::format("--{}", flag->name));
      return complain("{} could mean {}; write it out", spelled, fmt::join(names, " or "));
    }
    if (!found.front()->takes_value() && equals != std::string::npos) {
      return complain("--{} takes no value; leave out \"{}\"", found.front()->name,
                      word.substr(equals));
    }
    if (equals != std::string::npos) {
      return keep(found.front(), spelled, word.substr(equals + 1));
    }
    take_value(found.front(), spelled);
  }

  void take_short(const std::string& word) {
    // Letters may be glued together as long as they take no value, and a value to its letter.
    for (std::size_t at = 1; at < word.size(); ++at) {
      const auto spelled = fmt::format("-{}", word[at]);
      const auto* flag = by_letter(word[at]);
      if (flag == nullptr) return refuse_unknown(spelled, true);
      if (flag->takes_value() && at + 1 < word.size()) {
        const auto value = word.substr(at + 1);
        return keep(flag, spelled, value.starts_with('=') ? value.substr(1) : value);
      }
      take_value(flag, spelled);
    }
  }

  void take_value(const FlagFacts* flag, const std::string& spelled) {
    if (!flag->takes_value()) return keep(flag, spelled, "");
    if (next_ == words_.size() || is_flag(words_[next_])) {
      return complain("{} needs a value: {}={}", spelled, spelled, flag->value);
    }
    keep(flag, spelled, words_[next_++]);
    result_.typed.back().is_apart = true;
  }

  // The word after it is its value, if the flag that was meant takes one: not the script.
  void refuse_unknown(const std::string& spelled, bool has_value) {
    std::vector<std::string> names;
    for (const auto& flag : flags_) names.push_back("--" + flag.name);
    const auto* const near = spelled.starts_with("--") ? nearest(spelled, names) : nullptr;
    if (near == nullptr) return complain("unknown flag {}; cpprun --help lists all flags", spelled);
    complain("unknown flag {}; did you mean {}?", spelled, *near);
    const bool takes_value = candidates(std::string_view(*near).substr(2)).front()->takes_value();
    const bool is_last = next_ + 1 >= words_.size();
    if (takes_value && !has_value && !is_last && !is_flag(words_[next_])) ++next_;
  }

  void keep(const FlagFacts* flag, const std::string& spelled, const std::string& value) {
    result_.typed.push_back({flag, spelled, value});
  }

  template <class... Values>
  void complain(fmt::format_string<Values...> text, Values&&... values) {
    result_.mistakes.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  const std::vector<FlagFacts>& flags_;
  const std::vector<std::string>& words_;
  std::size_t next_ = 0;
  TypedWords result_;
};

}  // namespace

std::string flag_name(std::string_view spelled) {
  std::string name(spelled);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const TypedFlag* TypedWords::swallower() const {
  if (script) return nullptr;
  const TypedFlag* found = nullptr;
  for (const auto& each : typed) {
    if (!each.is_apart) continue;
    const bool is_last = &each == &typed.back();
    const bool is_file = each.value.ends_with(".py") || each.value.ends_with(".sh");
    if (is_file || (is_last && found == nullptr)) found = &each;
  }
  return found;
}

std::vector<std::string> notes_of_arguments(const std::vector<FlagFacts>& flags,
                                            const TypedWords& words) {
  std::vector<std::string> notes;
  for (const auto& word : words.arguments) {
    if (!word.starts_with("--")) continue;
    const auto name = flag_name(std::string_view(word).substr(2, word.find('=') - 2));
    const auto flag = std::ranges::find(flags, name, &FlagFacts::name);
    if (flag == flags.end() || !flag->is_launchers_own) continue;
    const auto is_given = [&](const TypedFlag& each) { return each.flag->name == name; };
    if (std::ranges::any_of(words.typed, is_given)) continue;
    notes.push_back(fmt::format("{} comes after {}, so it is passed to the script",
                                plain_line(word, word_bytes_shown_max),
                                plain_line(*words.script, word_bytes_shown_max)));
  }
  if (notes.size() > notes_max) notes.resize(notes_max);
  return notes;
}

TypedWords read_words(const std::vector<FlagFacts>& flags, const std::vector<std::string>& words) {
  return WordReader(flags, words).read();
}

}  // namespace cpprun
