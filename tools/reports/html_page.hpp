#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A page that opens without a network: the same style for all, its data and its scripts inside. What it is made of are
/// the files in `page/`, embedded as they are.
struct HtmlPage {
  std::string title;
  std::string body;  ///< markup
  std::string data_id = "data";
  nlohmann::ordered_json* data = nullptr;  ///< none: the page has no scripts either
  std::vector<std::string_view> scripts = {};
};
std::string html_text(const HtmlPage&);

/// The scripts of `page/`, and the library that draws charts (Chart.js).
namespace page_script {
std::string_view charts();
std::string_view common();
std::string_view lesson();
std::string_view run();
std::string_view timeline();
std::string_view sweep();
std::string_view learn();
std::string_view plan();
std::string_view serve();
std::string_view validation();
}  // namespace page_script

/// A page of charts: `scripts` draw `data`, of which `answer` is what --json writes.
std::string chart_page(const std::string& title, nlohmann::ordered_json data, std::vector<std::string_view> scripts);
/// The answer to a scenario as such a page: `answer` as --json writes it, `screen` as the terminal shows it, and pictures of
/// the run (`draw_run`; null: none). `device` is what its chips are called (see `device_noun`).
std::string run_page(const nlohmann::json& answer, const std::string& screen, nlohmann::ordered_json pictures,
                     const std::string& device);

}  // namespace trainyard
