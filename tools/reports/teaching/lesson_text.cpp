#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/lessons/data_size.hpp"
#include "tools/reports/teaching/lesson_views.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::string_view kSent = "sent so far";

std::size_t width_of(const std::string& text) {  // in characters
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

class TextLesson {
 public:
  TextLesson(const CollectiveLesson& lesson, bool colour) : lesson_(lesson), colour_(colour) {}
  std::string all() {
    text_ = in(kBold, lesson_title(lesson_)) + "\n" + "on " + lesson_.machine + "\n";
    if (lesson_.algorithm == "ring-literal")
      text_ += "as textbooks list it: each rank receives into the slot that it sends, then adds that to the next\n";
    if (!lesson_.slots.empty()) {
      text_ += "\n" + in(kBold, "at the beginning") + "\n";
      table(lesson_.initial, {});
    }
    for (std::size_t i = 0; i < lesson_.steps.size(); ++i) step(i);
    text_ += "\n";
    for (const std::string& sentence : lesson_sums(lesson_)) text_ += sentence + "\n";
    return text_;
  }

 private:
  static constexpr const char *kBold = "1", *kComplete = "32", *kStale = "33";
  const CollectiveLesson& lesson_;
  bool colour_;
  std::string text_;

  std::string in(const char* code, const std::string& text) const {
    return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  std::string styled(const SlotContent& content, const std::string& text) const {
    std::string code = content.complete ? kComplete : content.stale ? kStale : "";
    if (content.changed) code = code.empty() ? kBold : std::string(kBold) + ";" + code;
    return code.empty() ? text : in(code.c_str(), text);
  }

  void step(std::size_t i) {
    const LessonStep& s = lesson_.steps[i];
    const std::string kind = step_kind(s), limit = step_limit(s);
    const std::string head =
        fmt::format("step {} of {}{}", i + 1, lesson_.steps.size(), kind.empty() ? "" : ", " + kind);
    text_ += fmt::format("\n{}: {} to {}, takes {}\n", in(kBold, head), show(Seconds{s.begin}), show(Seconds{s.end}),
                         show(Seconds{s.end - s.begin}));
    if (!limit.empty()) text_ += "  limited by " + limit + "\n";
    transfers(s);
    if (lesson_.slots.empty()) return;
    table(s.buffers, s.sent);
    stale(s);
  }

  /// What colours show on a terminal.
  void stale(const LessonStep& s) {
    std::vector<std::string> words;
    for (std::size_t m = 0; m < s.buffers.size(); ++m) {
      std::string slots;
      for (std::size_t slot = 0; slot < s.buffers[m].size(); ++slot)
        if (s.buffers[m][slot].stale) slots += " " + lesson_.slots[slot];
      if (!slots.empty()) words.push_back(lesson_.members[m].name + slots);
    }
    if (!words.empty()) lines(words, "stale, from another slot: ");
  }

  /// One after the other, as many a line as fit.
  void lines(const std::vector<std::string>& words, const std::string& before = "") {
    constexpr std::size_t longest = kColumns - 2;
    std::string line = before;
    bool empty = true;
    for (const std::string& word : words) {
      if (!empty && width_of(line) + 3 + width_of(word) > longest) {
        text_ += "  " + line + "\n";
        line.clear();
        empty = true;
      }
      line += (empty ? "" : "   ") + (width_of(word) > longest ? shortened(word, longest) : word);
      empty = false;
    }
    if (!empty) text_ += "  " + line + "\n";
  }

  void transfers(const LessonStep& s) {
    std::vector<std::string> words;
    for (const LessonTransfer& t : s.transfers) {
      std::string one = fmt::format("{}→{}", name(t.from), name(t.to));
      if (!t.slots.empty()) one += fmt::format(" {}: {}", t.slots, t.content);
      words.push_back(one);
    }
    lines(words);
  }
  static std::string shortened(const std::string& text, std::size_t width) {
    std::size_t bytes = 0;
    for (std::size_t characters = 0; bytes < text.size(); ++bytes)
      if ((static_cast<unsigned char>(text[bytes]) & 0xc0U) != 0x80 && ++characters == width) break;
    return text.substr(0, bytes) + "…";
  }
  const std::string& name(int member) const { return lesson_.members[member].name; }

  /// Slots in columns, as many as fit, then the others below.
  void table(const std::vector<std::vector<SlotContent>>& buffers, const std::vector<double>& sent) {
    std::size_t names = 0;
    for (const LessonMember& member : lesson_.members)
      if (member.holds_data) names = std::max(names, width_of(member.name));
    std::vector<std::size_t> widths;
    for (std::size_t slot = 0; slot < lesson_.slots.size(); ++slot) {
      std::size_t width = width_of(lesson_.slots[slot]);
      for (std::size_t m = 0; m < buffers.size(); ++m)
        if (lesson_.members[m].holds_data) width = std::max(width, width_of(buffers[m][slot].text));
      widths.push_back(width);
    }
    for (std::size_t first = 0, end = 0; first < widths.size(); first = end) {
      std::size_t room = kColumns - 2 - names;
      for (end = first; end < widths.size() && (end == first || widths[end] + 2 <= room); ++end)
        room -= std::min(room, widths[end] + 2);
      const bool tell_sent = !sent.empty() && end == widths.size();
      if (tell_sent && room < 2 + kSent.size() && end - first > 1) --end;
      rows(buffers, first, end, widths, names, end == widths.size() ? sent : std::vector<double>{});
    }
  }
  void rows(const std::vector<std::vector<SlotContent>>& buffers, std::size_t first, std::size_t end,
            const std::vector<std::size_t>& widths, std::size_t names, const std::vector<double>& sent) {
    std::string line = "  " + padded("", names);
    for (std::size_t slot = first; slot < end; ++slot) line += "  " + padded(lesson_.slots[slot], widths[slot]);
    if (!sent.empty()) line += "  " + std::string(kSent);
    text_ += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    for (std::size_t m = 0; m < buffers.size(); ++m) {
      if (!lesson_.members[m].holds_data) continue;
      text_ += "  " + padded(lesson_.members[m].name, names);
      for (std::size_t slot = first; slot < end; ++slot) {
        const SlotContent& content = buffers[m][slot];
        const bool last = slot + 1 == end && sent.empty();
        text_ += "  " + styled(content, content.text) +
                 (last ? "" : std::string(widths[slot] - width_of(content.text), ' '));
      }
      if (!sent.empty()) text_ += "  " + size_text(sent[m], lesson_.decimal);
      text_ += "\n";
    }
  }
};

}  // namespace

std::string lesson_text(const CollectiveLesson& lesson, bool colour) { return TextLesson(lesson, colour).all(); }

std::string lesson_title(const CollectiveLesson& lesson) {
  std::string text = lesson.operation;
  if (!lesson.reduction.empty()) text += fmt::format(" ({})", lesson.reduction);
  text += fmt::format(" by {}, {} ranks", lesson.algorithm, lesson.ranks);
  if (lesson.root >= 0) text += fmt::format(", root {}", lesson.root + lesson.labels_from);
  return lesson.size > 0 ? text + ", " + size_text(lesson.size, lesson.decimal) : text;
}

std::string step_kind(const LessonStep& step) {
  bool adds = false, copies = false;
  for (const LessonTransfer& t : step.transfers)
    if (!t.slots.empty()) (t.adds ? adds : copies) = true;
  if (copies && step.reduces_after) return "copying, then reducing";
  return adds && copies ? "reducing and copying" : adds ? "reducing" : copies ? "copying" : "";
}

std::string step_limit(const LessonStep& step) {
  if (step.limiting.empty()) return "";
  const std::size_t more = step.limiting.size() - 1;
  return step.limiting.front() + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<std::string> lesson_sums(const CollectiveLesson& lesson) {
  std::vector<std::string> all;
  std::size_t messages = 0;
  for (const LessonStep& step : lesson.steps) messages += step.transfers.size();
  all.push_back(fmt::format("{} in {} step{}, {} message{}", show(Seconds{lesson.time}), lesson.steps.size(),
                            lesson.steps.size() == 1 ? "" : "s", messages, messages == 1 ? "" : "s"));
  if (lesson.size > 0) {
    const double sent = *std::max_element(lesson.sent.begin(), lesson.sent.end());
    const double received = *std::max_element(lesson.received.begin(), lesson.received.end());
    // Switches that add up can do with less.
    const char* whose = static_cast<int>(lesson.members.size()) > lesson.ranks ? " of ranks alone" : "";
    all.push_back(fmt::format("the busiest rank sends {} and receives {}; closed-form minimum{}: {}",
                              size_text(sent, lesson.decimal), size_text(received, lesson.decimal), whose,
                              size_text(lesson.least_rank, lesson.decimal)));
    all.push_back(fmt::format("in total {} are sent; closed-form minimum{}: {}",
                              size_text(lesson.total, lesson.decimal), whose,
                              size_text(lesson.least_total, lesson.decimal)));
  }
  if (!lesson.slots.empty())
    all.push_back(lesson.kept ? "every rank ends with what the operation promises"
                              : "NOT every rank ends with what the operation promises: the algorithm is wrong");
  if (lesson.hazards.empty()) return all;
  all.push_back(
      fmt::format("{} hazard{}: a receive overwrites what a send may still read; the result is right only "
                  "where the\nsend has captured its data when it was posted",
                  lesson.hazards.size(), lesson.hazards.size() == 1 ? "" : "s"));
  constexpr std::size_t most = 4;
  for (std::size_t i = 0; i < std::min(most, lesson.hazards.size()); ++i) all.push_back("  " + lesson.hazards[i]);
  if (lesson.hazards.size() > most) all.push_back(fmt::format("  and {} more", lesson.hazards.size() - most));
  return all;
}

}  // namespace trainyard
