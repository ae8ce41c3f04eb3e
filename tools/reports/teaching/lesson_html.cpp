#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/src/lessons/data_size.hpp"
#include "scenarios/src/pictures/svg.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/teaching/lesson_views.hpp"

namespace trainyard {
namespace {

nlohmann::json cells(const std::vector<std::vector<SlotContent>>& buffers) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& buffer : buffers) {
    nlohmann::json row = nlohmann::json::array();
    for (const SlotContent& content : buffer) {
      std::string classes = content.complete        ? "complete"
                            : content.stale         ? "stale"
                            : content.parts.empty() ? ""
                                                    : "part";
      if (content.changed) classes += " changed";
      row.push_back({content.text, classes});
    }
    all.push_back(std::move(row));
  }
  return all;
}

nlohmann::json step_data(const CollectiveLesson& lesson, std::size_t i) {
  const LessonStep& step = lesson.steps[i];
  const std::string kind = step_kind(step);
  nlohmann::json transfers = nlohmann::json::array(), sent = nlohmann::json::array();
  for (const LessonTransfer& t : step.transfers) {
    const auto name = [&lesson](int member) { return lesson.members[member].name; };
    std::string text = fmt::format("{}→{}", name(t.from), name(t.to));
    if (!t.slots.empty()) text += fmt::format(" {}: {}", t.slots, t.content);
    text += fmt::format(" ({}{})", size_text(t.bytes, lesson.decimal), t.link.empty() ? "" : ", " + t.link);
    transfers.push_back({{"from", t.from}, {"to", t.to}, {"content", t.content}, {"text", text}});
  }
  for (const double bytes : step.sent) sent.push_back(size_text(bytes, lesson.decimal));
  return {{"head", fmt::format("step {} of {}{}: {} to {}, takes {}", i + 1, lesson.steps.size(),
                               kind.empty() ? "" : ", " + kind, show(Seconds{step.begin}), show(Seconds{step.end}),
                               show(Seconds{step.end - step.begin}))},
          {"limit", step_limit(step)},
          {"share", lesson.time > 0 ? (step.end - step.begin) / lesson.time : 1.0},
          {"transfers", transfers},
          {"buffers", cells(step.buffers)},
          {"sent", sent}};
}

nlohmann::json page_data(const CollectiveLesson& lesson) {
  nlohmann::json members = nlohmann::json::array(), steps = nlohmann::json::array();
  const std::size_t ranks = static_cast<std::size_t>(lesson.ranks), others = lesson.members.size() - ranks;
  for (std::size_t i = 0; i < lesson.members.size(); ++i) {
    const bool rank = i < ranks;
    members.push_back({{"name", lesson.members[i].name},
                       {"holds", lesson.members[i].holds_data},
                       {"place", rank ? i : i - ranks},
                       {"of", rank ? ranks : others},
                       {"radius", rank         ? 170
                                  : others > 1 ? 70
                                               : 0}});
  }
  for (std::size_t i = 0; i < lesson.steps.size(); ++i) steps.push_back(step_data(lesson, i));
  return {{"members", members},
          {"slots", lesson.slots},
          {"initial", cells(lesson.initial)},
          {"steps", steps},
          {"sums", lesson_sums(lesson)}};
}

}  // namespace

std::string lesson_html(const CollectiveLesson& lesson) {
  const std::string title = lesson_title(lesson);
  nlohmann::ordered_json data = page_data(lesson);
  return html_text(
      {title,
       fmt::format(
           "<h1>{}</h1>\n<div class=\"quiet\">on {}</div>\n<div id=\"times\"></div>\n<div class=\"controls\">"
           "<button id=\"first\">first</button> <button id=\"back\">← back</button> <button id=\"play\">play</button> "
           "<button id=\"on\">forward →</button> <button id=\"end\">last</button></div>\n<div class=\"lesson\">\n"
           "<svg id=\"picture\" viewBox=\"0 0 440 440\"></svg>\n<div>\n<strong id=\"head\"></strong>\n"
           "<div id=\"limit\" class=\"quiet\"></div>\n<div id=\"buffers\" style=\"margin:.8em 0\"></div>\n"
           "<div id=\"messages\"></div>\n<p id=\"sums\"></p>\n</div>\n</div>\n",
           Svg::escaped(title), Svg::escaped(lesson.machine)),
       "lesson",
       &data,
       {page_script::lesson()}});
}

}  // namespace trainyard
