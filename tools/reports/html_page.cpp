#include "tools/reports/html_page.hpp"

#include <nlohmann/json.hpp>

#include "models/reading/xml_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "sim/json_text.hpp"
#include "tools/reports/assumptions.hpp"
#include "tools/reports/comparison_report.hpp"
#include "topologies/device_noun.hpp"

// The linker makes these symbols from the files (see CMakeLists.txt) and names them after the files.
#define TRAINYARD_PAGE_PART(name) extern "C" const char _binary_##name##_start[], _binary_##name##_end[]
#define TRAINYARD_PAGE_TEXT(name) \
  std::string_view(_binary_##name##_start, static_cast<std::size_t>(_binary_##name##_end - _binary_##name##_start))

#define TRAINYARD_PAGE_SCRIPT(name, file) \
  TRAINYARD_PAGE_PART(file);              \
  std::string_view trainyard::page_script::name() { return TRAINYARD_PAGE_TEXT(file); }

TRAINYARD_PAGE_PART(page_html);
TRAINYARD_PAGE_PART(page_css);
TRAINYARD_PAGE_SCRIPT(charts, chart_min_js)
TRAINYARD_PAGE_SCRIPT(common, page_js)
TRAINYARD_PAGE_SCRIPT(compare, compare_js)
TRAINYARD_PAGE_SCRIPT(lesson, lesson_js)
TRAINYARD_PAGE_SCRIPT(run, run_js)
TRAINYARD_PAGE_SCRIPT(schedules, schedules_js)
TRAINYARD_PAGE_SCRIPT(timeline, timeline_js)
TRAINYARD_PAGE_SCRIPT(sweep, sweep_js)
TRAINYARD_PAGE_SCRIPT(learn, learn_js)
TRAINYARD_PAGE_SCRIPT(plan, plan_js)
TRAINYARD_PAGE_SCRIPT(serve, serve_js)
TRAINYARD_PAGE_SCRIPT(size, size_js)
TRAINYARD_PAGE_SCRIPT(fleet, fleet_js)
TRAINYARD_PAGE_SCRIPT(validation, validation_js)

namespace trainyard {
namespace {

/// Escapes '<' in JSON, so that no text of it ends the script element.
std::string escape_for_script(const std::string& text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text)
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

void replace_mark(std::string& text, std::string_view mark, std::string_view by) {
  text.replace(text.find(mark), mark.size(), by);
}

}  // namespace

std::string html_text(const HtmlPage& page) {
  std::string body = page.body;
  if (page.data)
    body += "<script type=\"application/json\" id=\"" + page.data_id + "\">" +
            escape_for_script(json_text(*page.data)) + "</script>\n";
  for (const std::string_view script : page.scripts) (body += "<script>\n").append(script) += "</script>\n";
  // Replaces the marks from the last to the first, so that the replaced texts are not searched for marks.
  std::string text(TRAINYARD_PAGE_TEXT(page_html));
  replace_mark(text, "@body@", body);
  replace_mark(text, "@style@", TRAINYARD_PAGE_TEXT(page_css));
  replace_mark(text, "@title@", xml_escaped(page.title));
  return text;
}

std::string chart_page(const std::string& title, nlohmann::ordered_json data, std::vector<std::string_view> scripts) {
  scripts.insert(scripts.begin(), {page_script::charts(), page_script::common()});
  return html_text({title, "<main id=\"page\"></main>\n<noscript>This page draws its charts with scripts.</noscript>\n",
                    "data", &data, std::move(scripts)});
}

std::string run_page(const nlohmann::json& answer, const std::string& screen, nlohmann::ordered_json pictures,
                     const Scenario& scenario) {
  nlohmann::ordered_json data{{"answer", answer},
                              {"screen", screen},
                              {"pictures", std::move(pictures)},
                              {"device", device_noun(scenario.cluster)},
                              {"assumptions", assumptions_json(scenario.document, node_types(scenario))}};
  return chart_page("Answer of run: " + answer["scenario"].get<std::string>(), std::move(data),
                    {page_script::timeline(), page_script::run()});
}

std::string comparison_page(const Comparison& comparison, const std::string& screen,
                            const std::vector<Scenario>& scenarios) {
  std::string device;
  std::vector<std::string> nodes;
  for (const Scenario& scenario : scenarios) {
    device = common_noun(device, device_noun(scenario.cluster));
    for (const std::string& node : node_types(scenario)) nodes.push_back(node);
  }
  const ComparisonLabels labels = labels_of(comparison);
  nlohmann::ordered_json data{{"answer", comparison_fields().json(comparison)},
                              {"labels",
                               {{"time", labels.time},
                                {"of_pass", labels.of_pass},
                                {"loop_pass", labels.loop_pass},
                                {"engine_pass", labels.engine_pass}}},
                              {"screen", screen},
                              {"device", device},
                              {"assumptions", assumptions_json(scenarios.front().document, nodes)}};
  return chart_page("Scenarios side by side", std::move(data), {page_script::compare()});
}

}  // namespace trainyard
