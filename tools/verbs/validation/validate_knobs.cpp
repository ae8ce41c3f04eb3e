#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/fitted_constants.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/validation/validation.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

int show_knobs(const ValidationRequest& request) {
  TextTable runs{{"belongs to", "constant", "value", "fitted to"}, {false, false, true, false}};
  TextTable tables = runs;
  nlohmann::json knobs = nlohmann::json::array();
  for (const FittedConstant& constant : fitted_constants()) {
    const std::string owner = fmt::format("{} {}", constant.kind, fmt::join(constant.entries, ", "));
    (constant.by_command ? tables : runs).rows.push_back({owner, constant.key, constant.value, constant.source});
    knobs.push_back({{"belongs_to", owner},
                     {"constant", constant.key},
                     {"value", constant.value},
                     {"source", "fit: " + constant.source},
                     {"by_table", constant.by_command}});
  }
  report(
      request,
      fmt::format("{} constants fitted to measured runs\n{}\n{} constants that a command fits to tables of kernels and "
                  "collectives\n{}",
                  runs.rows.size(), runs.text(), tables.rows.size(), tables.text()),
      nlohmann::json{{"knobs", knobs}});
  return kGood;
}

}  // namespace trainyard
