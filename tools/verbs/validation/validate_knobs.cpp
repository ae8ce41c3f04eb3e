#include "tools/verbs/validation/validate_knobs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/fitted_constants.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
int show_knobs(const std::string& json_file) {
  TextTable runs{{"belongs to", "constant", "value", "fitted to"}, {false, false, true, false}, {}};
  TextTable tables = runs;
  nlohmann::json out = nlohmann::json::array();
  for (const FittedConstant& constant : fitted_constants()) {
    const std::string owner = fmt::format("{} {}", constant.kind, fmt::join(constant.entries, ", "));
    (constant.by_command ? tables : runs).rows.push_back({owner, constant.key, constant.value, constant.source});
    out.push_back({{"belongs_to", owner},
                   {"constant", constant.key},
                   {"value", constant.value},
                   {"source", "fit: " + constant.source},
                   {"by_table", constant.by_command}});
  }
  if (json_file != "-")
    fmt::print(
        "{} constants fitted to measured runs\n{}\n{} constants that a command fits to tables of kernels and "
        "collectives\n{}",
        runs.rows.size(), runs.text(), tables.rows.size(), tables.text());
  if (!json_file.empty()) write_atomically(json_file, json_text(nlohmann::json{{"knobs", out}}, 2) + "\n");
  return kGood;
}

}  // namespace trainyard
