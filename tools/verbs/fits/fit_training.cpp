#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/left_out.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/fits/fit.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

int fit_training(const std::string& json) {
  using FitJson = nlohmann::ordered_json;
  const std::vector<RefittedFamily> all = refit_to_all(measured_families({"training"}));
  TextTable constants{"constant", ">catalog", ">fitted again"};
  FitJson values = FitJson::array(), families = FitJson::array();
  for (const RefittedConstant& c : all.front().constants) {
    constants.rows.push_back({c.name, c.value, c.refitted.empty() ? "not determined by the runs" : c.refitted});
    values.push_back(
        {{"constant", c.name}, {"value", c.value}, {"again", c.refitted.empty() ? FitJson() : FitJson(c.refitted)}});
  }
  TextTable errors{"family", ">n", ">catalog", ">fitted again"};
  double now = 0, again = 0;
  int count = 0;
  for (const RefittedFamily& family : all) {
    const auto before = family.now.step_times(), after = family.refitted.step_times();
    if (!before || !after) continue;
    now += before->mean_abs;
    again += after->mean_abs;
    ++count;
    errors.rows.push_back(
        {family.now.name, fmt::format("{}", before->n), percent(before->mean_abs), percent(after->mean_abs)});
    families.push_back(
        {{"family", family.now.name}, {"n", before->n}, {"now", before->mean_abs}, {"again", after->mean_abs}});
  }
  if (json != "-")
    write_atomically("-", fmt::format("constants fitted to measured training runs, one step along the derivatives of "
                                      "step times\n{}\n{}mean over {} families, each once: {}, fitted again {}\n",
                                      constants.text(), errors.text(), count, percent(now / std::max(1, count)),
                                      percent(again / std::max(1, count))));
  write_json(json, FitJson{{"constants", values}, {"families", families}});
  return kGood;
}

}  // namespace trainyard
