#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/fitted_constants.hpp"
#include "scenarios/src/studies/measured/left_out.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {

namespace {

/// The families whose step times depend on a constant, and its values without each of them.
struct ConstantFamilies {
  std::string value;                           ///< in the catalog
  std::vector<std::string> families, without;  ///< `without`: "" if the other families do not determine it
};

/// Constants by name, each refitted without each family in turn.
std::map<std::string, ConstantFamilies> constants_without_each() {
  LeftOutOptions options;
  options.predicts = false;
  std::map<std::string, ConstantFamilies> constants;
  for (const RefittedFamily& family : leave_out_each(families_of_fit(), options))
    for (const RefittedConstant& constant : family.constants) {
      ConstantFamilies& all = constants[constant.name];
      all.value = constant.value;
      all.families.push_back(family.now.name);
      all.without.push_back(constant.refitted);
    }
  return constants;
}

/// Describes the values without each family: their range, or the family without which nothing determines the constant.
std::string without_text(const ConstantFamilies& constant) {
  const auto alone = std::ranges::find(constant.without, "");
  if (alone != constant.without.end())
    return constant.families[static_cast<std::size_t>(alone - constant.without.begin())] + " alone determines it";
  const auto [least, most] = std::ranges::minmax_element(
      constant.without, {}, [](const std::string& value) { return std::strtod(value.c_str(), nullptr); });
  return *least == *most ? *least : fmt::format("{} to {}", *least, *most);
}

int show_left_out_knobs(const ValidationRequest& request) {
  TextTable table{"constant", ">value", ">families", "without each of them"};
  nlohmann::json knobs = nlohmann::json::array();
  int alone = 0;
  for (const auto& [name, constant] : constants_without_each()) {
    table.rows.push_back({name, constant.value, fmt::format("{}", constant.families.size()), without_text(constant)});
    nlohmann::json without = nlohmann::json::object();
    for (std::size_t i = 0; i < constant.families.size(); ++i)
      without[constant.families[i]] =
          constant.without[i].empty() ? nlohmann::json() : nlohmann::json(constant.without[i]);
    if (std::ranges::count(constant.without, "") > 0) ++alone;
    knobs.push_back({{"constant", name}, {"value", constant.value}, {"without_family", without}});
  }
  report(request,
         fmt::format("{} constants on which step times depend, refitted without each family that reads them\n{}{} of "
                     "them are determined by one family alone; without it the constant has the value of its base\n",
                     table.rows.size(), table.text(), alone),
         nlohmann::json{{"knobs", knobs}});
  return kGood;
}

}  // namespace

int show_knobs(const ValidationRequest& request) {
  if (request.left_out) return show_left_out_knobs(request);
  TextTable runs{"belongs to", "constant", ">value", "fitted to"};
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
  report(request,
         fmt::format("{} constants fitted to measured runs\n{}\n{} constants that a command fits to tables of kernels "
                     "and collectives\n{}",
                     runs.rows.size(), runs.text(), tables.rows.size(), tables.text()),
         nlohmann::json{{"knobs", knobs}});
  return kGood;
}

}  // namespace trainyard
