#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/pictures/svg.hpp"
#include "sim/json_text.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/teaching/lesson_views.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

ordered_json grid_data(const LessonGrid& grid) {
  ordered_json rows = ordered_json::array();
  for (const LessonGrid::Row& row : grid.rows) {
    ordered_json cells = ordered_json::array();
    for (const LessonCell& cell : row.cells)
      cells.push_back({cell.text, std::string(style_of(cell.tone).css) + (cell.marked ? " changed" : "")});
    rows.push_back({{"name", row.name}, {"cells", cells}});
  }
  return {{"title", grid.title}, {"head", grid.head}, {"rows", rows}};
}

/// The data for lesson.js. Actors are on a circle, inner actors on a smaller one.
ordered_json steps_data(const LessonView& view) {
  ordered_json actors = ordered_json::array(), frames = ordered_json::array();
  std::size_t inner = 0, places[] = {0, 0};
  for (const LessonActor& actor : view.actors) inner += actor.inner ? 1 : 0;
  for (const LessonActor& actor : view.actors)
    actors.push_back({{"name", actor.name},
                      {"place", places[actor.inner ? 1 : 0]++},
                      {"of", actor.inner ? inner : view.actors.size() - inner},
                      {"radius", !actor.inner ? 170
                                 : inner > 1  ? 70
                                              : 0}});
  for (const LessonFrame& frame : view.frames) {
    ordered_json arrows = ordered_json::array(), grids = ordered_json::array();
    for (const LessonArrow& a : frame.arrows)
      arrows.push_back(
          {{"from", a.from}, {"to", a.to}, {"content", a.content}, {"text", a.words + " (" + a.cost + ")"}});
    for (const LessonGrid& grid : frame.grids) grids.push_back(grid_data(grid));
    frames.push_back({{"caption", frame.caption},
                      {"detail", frame.detail},
                      {"share", frame.share},
                      {"arrows", arrows},
                      {"grids", grids}});
  }
  return {{"actors", actors}, {"frames", frames}, {"sums", view.sums}};
}

std::string figures_table(const LessonFigures& figures) {
  if (figures.rows.empty()) return "";
  std::string table = "<table>\n";
  const auto add = [&table](const char* tag, const std::vector<std::string>& cells) {
    table += "<tr>";
    for (const std::string& cell : cells) table += fmt::format("<{0}>{1}</{0}>", tag, Svg::escape(cell));
    table += "</tr>\n";
  };
  add("th", figures.head);
  for (const std::vector<std::string>& row : figures.rows) add("td", row);
  return table + "</table>\n";
}

constexpr const char* kSteps =
    "<div id=\"times\"></div>\n<div class=\"controls\"><button id=\"first\">first</button> <button id=\"back\">← "
    "back</button> <button id=\"play\">play</button> <button id=\"on\">forward →</button> <button "
    "id=\"end\">last</button></div>\n<div class=\"lesson\">\n"
    "<svg id=\"picture\" viewBox=\"0 0 440 440\"></svg>\n<div>\n<strong id=\"head\"></strong>\n"
    "<div id=\"limit\" class=\"quiet\"></div>\n<div id=\"buffers\" style=\"margin:.8em 0\"></div>\n"
    "<div id=\"messages\"></div>\n<p id=\"sums\"></p>\n</div>\n</div>\n";

constexpr const char* kSchedules =
    "<div class=\"bar\" id=\"sliders\"></div>\n<p class=\"quiet\" id=\"values\" aria-live=\"polite\"></p>\n"
    "<div class=\"legend\" id=\"legend\"></div>\n<div id=\"schedules\"></div>\n<h2>With the times of the "
    "command</h2>\n";

}  // namespace

std::string lesson_html(const LessonView& view) {
  if (view.schedules) {
    ordered_json data = parse_ordered_json(view.json);
    return html_text(
        {view.title,
         fmt::format("<h1>{}</h1>\n{}{}", Svg::escape(view.title), kSchedules, figures_table(view.figures)),
         "lesson",
         &data,
         {page_script::schedules()}});
  }
  if (view.actors.empty()) {
    const std::string picture = view.frames.empty() ? "" : lesson_svg(view);
    return html_text(
        {.title = view.title,
         .body = fmt::format("<div class=\"scroll machine\">{}</div>\n{}", picture, figures_table(view.figures))});
  }
  std::string head = fmt::format("<h1>{}</h1>\n", Svg::escape(view.title));
  for (const std::string& note : view.notes) head += fmt::format("<div class=\"quiet\">{}</div>\n", Svg::escape(note));
  ordered_json data = steps_data(view);
  return html_text({view.title, head + kSteps, "lesson", &data, {page_script::lesson()}});
}

}  // namespace trainyard
