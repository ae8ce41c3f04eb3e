#include "tools/verbs/validation/validation_outputs.hpp"

#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/html_page.hpp"

namespace trainyard {

void ValidationOutputs::write(const std::string& title, nlohmann::json sets) const {
  if (!html.empty())
    write_atomically(html,
                     chart_page(title, {{"title", title}, {"answer", {{"sets", sets}}}}, {page_script::validation()}));
  if (json.empty()) return;
  if (!points)
    for (nlohmann::json& set : sets) set.erase("points");
  write_atomically(json, json_text(nlohmann::json{{"sets", std::move(sets)}}, 2) + "\n");
}

}  // namespace trainyard
