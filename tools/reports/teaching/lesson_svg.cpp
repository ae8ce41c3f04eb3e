#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/lessons/data_size.hpp"
#include "scenarios/src/pictures/svg.hpp"
#include "tools/reports/teaching/lesson_views.hpp"

namespace trainyard {
namespace {

constexpr double kMargin = 16, kRow = 20, kLine = 16, kLetter = 11, kHead = 40, kPage = 1400;

/// Generous: fonts differ, and what has just come is bold.
double width_of(std::string_view text) { return 1.3 * Svg::text_width(text, kLetter); }

/// Sizes of one frame, the same for all: the text that is longest sets the width of a slot.
struct FrameSize {
  double names = 0, slot = 34, width = 0, height = 0;
  std::size_t rows = 0, lines = 0;  // of messages
};

std::string message(const CollectiveLesson& lesson, const LessonTransfer& t) {
  const auto name = [&lesson](int member) { return lesson.members[member].name; };
  const std::string way = fmt::format("{} → {}", name(t.from), name(t.to));
  return t.slots.empty() ? way : fmt::format("{}  {}: {}", way, t.slots, t.content);
}

FrameSize frame_size(const CollectiveLesson& lesson) {
  FrameSize size;
  for (const LessonMember& member : lesson.members) {
    if (!member.holds_data) continue;
    ++size.rows;
    size.names = std::max(size.names, width_of(member.name) + 8);
  }
  double messages = 0;
  const auto fit = [&size](const std::vector<std::vector<SlotContent>>& buffers) {
    for (const auto& buffer : buffers)
      for (const SlotContent& content : buffer) size.slot = std::max(size.slot, width_of(content.text) + 10);
  };
  fit(lesson.initial);
  for (const std::string& slot : lesson.slots) size.slot = std::max(size.slot, width_of(slot) + 10);
  for (const LessonStep& step : lesson.steps) {
    fit(step.buffers);
    size.lines = std::max(size.lines, step.transfers.size());
    for (const LessonTransfer& t : step.transfers) messages = std::max(messages, width_of(message(lesson, t)));
  }
  const double sent = width_of("sent so far") + 8;
  size.width = std::max({size.names + size.slot * static_cast<double>(lesson.slots.size()) + sent, messages, 420.0});
  size.height = kHead + kRow * static_cast<double>(size.rows + 1) + kLine * static_cast<double>(size.lines);
  return size;
}

const char* fill_of(const SlotContent& content) {
  return content.complete ? "#bfe5c4" : content.stale ? "#ffd9a8" : content.parts.empty() ? "#f4f4f4" : "#dbe7f6";
}

void grid(Svg& svg, double x, double y, const CollectiveLesson& lesson, const FrameSize& size,
          const std::vector<std::vector<SlotContent>>& buffers, const std::vector<double>& sent) {
  const double right = x + size.names + size.slot * static_cast<double>(lesson.slots.size());
  for (std::size_t slot = 0; slot < lesson.slots.size(); ++slot)
    svg.text(x + size.names + size.slot * (static_cast<double>(slot) + 0.5), y + 14, lesson.slots[slot],
             {kLetter, "#666666", Svg::Anchor::middle});
  if (!sent.empty()) svg.text(right + 8, y + 14, "sent so far", {kLetter, "#666666"});
  for (std::size_t m = 0; m < buffers.size(); ++m) {
    if (!lesson.members[m].holds_data) continue;
    y += kRow;
    svg.text(x, y + 14, lesson.members[m].name, {kLetter});
    for (std::size_t slot = 0; slot < buffers[m].size(); ++slot) {
      const SlotContent& content = buffers[m][slot];
      const double left = x + size.names + size.slot * static_cast<double>(slot);
      svg.rect(left + 1, y + 1, size.slot - 2, kRow - 2, fill_of(content));
      if (content.changed) svg.frame(left + 1, y + 1, size.slot - 2, kRow - 2, "#222222");
      svg.text(left + size.slot / 2, y + 14, content.text, {kLetter, "#222222", Svg::Anchor::middle, content.changed});
    }
    if (!sent.empty()) svg.text(right + 8, y + 14, size_text(sent[m], lesson.decimal), {kLetter});
  }
}

void step_frame(Svg& svg, double x, double y, const CollectiveLesson& lesson, const FrameSize& size, std::size_t i) {
  const LessonStep& step = lesson.steps[i];
  const std::string kind = step_kind(step), limit = step_limit(step);
  svg.text(
      x, y + 12,
      fmt::format("step {} of {}{}: {} to {}, takes {}", i + 1, lesson.steps.size(), kind.empty() ? "" : ", " + kind,
                  show(Seconds{step.begin}), show(Seconds{step.end}), show(Seconds{step.end - step.begin})),
      {kLetter + 1, "#222222", Svg::Anchor::start, true});
  if (!limit.empty()) svg.text(x, y + 28, "limited by " + limit, {kLetter - 1, "#666666"});
  double at = y + kHead;
  for (const LessonTransfer& t : step.transfers) {
    svg.text(x, at + 8, message(lesson, t), {kLetter, "#222222"});
    at += kLine;
  }
  if (!lesson.slots.empty())
    grid(svg, x, y + kHead + kLine * static_cast<double>(size.lines), lesson, size, step.buffers, step.sent);
}

}  // namespace

std::string lesson_svg(const CollectiveLesson& lesson) {
  const FrameSize size = frame_size(lesson);
  const double across = size.width + 2 * kMargin, down = size.height + kMargin;
  const auto columns = static_cast<std::size_t>(std::max(1.0, kPage / across));
  const std::size_t frames = lesson.steps.size() + 1, rows = (frames + columns - 1) / columns;
  const std::vector<std::string> sums = lesson_sums(lesson);
  const double top = 56, bottom = kRow * static_cast<double>(sums.size()) + kMargin;
  double width = across * static_cast<double>(std::min(columns, frames));
  for (const std::string& sentence : sums) width = std::max(width, width_of(sentence) + 2 * kMargin);
  Svg svg(width, top + down * static_cast<double>(rows) + bottom, lesson_title(lesson),
          "What every rank holds after every step, and what was sent");
  svg.text(kMargin, 24, lesson_title(lesson), {15, "#222222", Svg::Anchor::start, true});
  svg.text(kMargin, 42, "on " + lesson.machine, {kLetter, "#666666"});
  for (std::size_t frame = 0; frame < frames; ++frame) {
    const double x = kMargin + across * static_cast<double>(frame % columns);
    const double y = top + kMargin / 2 + down * static_cast<double>(frame / columns);
    if (frame > 0) {
      step_frame(svg, x, y, lesson, size, frame - 1);
      continue;
    }
    svg.text(x, y + 12, "at the beginning", {kLetter + 1, "#222222", Svg::Anchor::start, true});
    grid(svg, x, y + kHead, lesson, size, lesson.initial, {});
  }
  double y = top + down * static_cast<double>(rows) + kRow;
  for (const std::string& sentence : sums) {
    svg.text(kMargin, y, sentence, {kLetter});
    y += kRow;
  }
  return svg.finish();
}

}  // namespace trainyard
