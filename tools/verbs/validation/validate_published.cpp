#include "tools/verbs/validation/validate_published.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/published_study.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "sim/units.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

// Points of MFU that the predictions are held to.
constexpr PublishedErrors kPublishedLimits{3, 6};

bool within_limits_of(const PublishedErrors& errors) {
  return errors.mean <= kPublishedLimits.mean && errors.worst <= kPublishedLimits.worst;
}

std::string rate_text(const PublishedRun& run, double rate) {
  return fmt::format("{:.0f} {}", rate, run.counted.empty() ? "tokens/s" : "TFLOP/s");
}

TextTable published_table(const std::vector<PublishedRun>& runs) {
  TextTable table{{"run", "GPUs", "published", "predicted", "MFU published", "predicted", "points",
                   "MFU of 6·parameters", "with attention", "published rate counts"},
                  {false, true, true, true, true, true, true, true, true, false},
                  {}};
  const auto share = [](double mfu) { return fmt::format("{:.1f} %", mfu * 100); };
  for (const PublishedRun& run : runs) {
    if (!run.refused.empty()) {
      table.rows.push_back({run.id, "", "", "refused", "", "", "", "", "", ""});
      continue;
    }
    table.rows.push_back({run.id, fmt::format("{}", run.devices), rate_text(run, run.published),
                          rate_text(run, run.predicted), share(run.published_mfu), share(run.predicted_mfu),
                          fmt::format("{:+.1f}", run.points()), share(run.mfu), share(run.mfu_with_attention),
                          (run.counted.empty() ? "tokens" : run.counted) + (run.fits ? "" : "; DOES NOT FIT")});
  }
  return table;
}

nlohmann::ordered_json published_json(const PublishedRun& run) {
  nlohmann::ordered_json j{{"id", run.id}, {"source", run.source}, {"assumed", run.assumed}};
  if (!run.refused.empty()) {
    j["refused"] = run.refused;
    return j;
  }
  j.update({{"devices", run.devices},
            {"counted", run.counted},
            {"published_rate", run.published},
            {"predicted_rate", run.predicted},
            {"published_mfu", run.published_mfu},
            {"predicted_mfu", run.predicted_mfu},
            {"error_points", run.points()},
            {"mfu", run.mfu},
            {"mfu_with_attention", run.mfu_with_attention},
            {"fits", run.fits}});
  return j;
}

}  // namespace

int validate_published(const std::string& json_file, bool points) {
  const std::vector<PublishedRun> runs = predict_published();
  const auto errors = errors_of(runs);
  const bool holds = errors && within_limits_of(*errors);
  if (json_file != "-") {
    fmt::print("published runs (scenarios/published) against the simulator; nothing is fitted to them\n{}",
               published_table(runs).text());
    if (errors)
      fmt::print("points of MFU: mean {:.1f}, worst {:.1f} (limits {} and {}: {})\n", errors->mean, errors->worst,
                 kPublishedLimits.mean, kPublishedLimits.worst, holds ? "hold" : "FAIL");
    for (const PublishedRun& run : runs)
      if (!run.refused.empty()) fmt::print("{}: {}\n", run.id, run.refused);
    for (const PublishedRun& run : runs)
      if (points && run.refused.empty()) fmt::print("{}: assumed: {}\n", run.id, run.assumed);
  }
  if (!json_file.empty()) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const PublishedRun& run : runs) all.push_back(published_json(run));
    nlohmann::ordered_json out{{"runs", std::move(all)}};
    if (errors) out.update({{"mean_abs_points", errors->mean}, {"worst_abs_points", errors->worst}, {"pass", holds}});
    write_atomically(json_file, json_text(out, 2) + "\n");
  }
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
