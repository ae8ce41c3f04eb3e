#include "tools/reports/run_page.hpp"

#include <nlohmann/json.hpp>

#include "tools/reports/html_page.hpp"

namespace trainyard {

std::string run_page(const nlohmann::json& answer, const std::string& screen, nlohmann::ordered_json pictures,
                     const std::string& device) {
  const std::string name = answer["scenario"];
  nlohmann::ordered_json data{
      {"answer", answer}, {"screen", screen}, {"pictures", std::move(pictures)}, {"device", device}};
  return chart_page("One training step: " + name, std::move(data), {page_script::timeline(), page_script::run()});
}

}  // namespace trainyard
