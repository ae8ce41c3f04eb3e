#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

struct Comparison;
struct Scenario;

/// A page that opens without a network, with its style, data and scripts inside. Its parts are the files in `page/`,
/// which are embedded unchanged.
struct HtmlPage {
  std::string title;
  std::string body;                        ///< markup
  std::string data_id = "data";            ///< id of the element that holds the data
  nlohmann::ordered_json* data = nullptr;  ///< null: the page has neither data nor scripts
  std::vector<std::string_view> scripts = {};
};
std::string html_text(const HtmlPage&);

/// The scripts of `page/`, and the library that draws charts (Chart.js).
namespace page_script {
std::string_view charts();
std::string_view compare();
std::string_view common();
std::string_view lesson();
std::string_view run();
std::string_view schedules();
std::string_view timeline();
std::string_view sweep();
std::string_view learn();
std::string_view plan();
std::string_view serve();
std::string_view size();
std::string_view fleet();
std::string_view validation();
}  // namespace page_script

/// A page of charts. `scripts` draw `data`, whose key `answer` is the JSON that --json writes.
std::string chart_page(const std::string& title, nlohmann::ordered_json data, std::vector<std::string_view> scripts);
/// The page of a scenario's answer. `answer`: as --json writes it. `screen`: as the terminal shows it. `pictures`: those
/// of the run (`draw_run`); null: none.
std::string run_page(const nlohmann::json& answer, const std::string& screen, nlohmann::ordered_json pictures,
                     const Scenario&);
/// The page of scenarios side by side. `screen`: as the terminal shows it.
std::string comparison_page(const Comparison&, const std::string& screen, const std::vector<Scenario>&);

}  // namespace trainyard
