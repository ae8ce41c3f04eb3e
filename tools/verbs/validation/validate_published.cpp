#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

/// The published rate of a device, in TFLOP/s or tokens/s.
double published_rate(const RunPrediction& run) {
  return run.measured.rate.value > 0 ? run.measured.rate.value * 1e-12 : run.measured.tokens_per_s;
}
double predicted_rate(const RunPrediction& run) {
  return published_rate(run) * (run.measured.step_time.value / run.step_time);
}
double points_of_mfu(const RunPrediction& run) {
  const auto [predicted, published] = run.mfus();
  return (predicted - published) * 100;
}

/// The verdict on the memory of a run that may not fit, in the words of `run`.
std::string memory_verdict(const RunPrediction& run) {
  if (run.fits_in_words == "yes") return "";
  if (run.fits_in_words == "no") return "; DOES NOT FIT";
  return fmt::format("; AT RISK, {} out of memory with a probability of {:.0f} %", run.fits ? "may run" : "likely runs",
                     run.risk * 100);
}

std::vector<std::string> published_row(const RunPrediction& run) {
  if (!run.refused.empty()) return {run.id, "", "", "refused", "", "", "", "", "", ""};
  const auto share = [](double mfu) { return fmt::format("{:.1f} %", mfu * 100); };
  const std::string& counted = run.measured.counted;
  const auto rate = [&](double value) {
    return fmt::format("{:.0f} {}", value, counted.empty() ? "tokens/s" : "TFLOP/s");
  };
  const auto [predicted, published] = run.mfus();
  return {run.id,
          fmt::format("{}", run.devices),
          rate(published_rate(run)),
          rate(predicted_rate(run)),
          share(published),
          share(predicted),
          fmt::format("{:+.1f}", points_of_mfu(run)),
          share(run.mfu),
          share(run.mfu_with_attention),
          (counted.empty() ? "tokens" : counted) + memory_verdict(run)};
}

nlohmann::ordered_json published_json(const RunPrediction& run) {
  nlohmann::ordered_json j{{"id", run.id}, {"source", run.measured.source}, {"assumed", run.measured.assumed}};
  if (!run.refused.empty()) {
    j["refused"] = run.refused;
    return j;
  }
  const auto [predicted, published] = run.mfus();
  j.update({{"devices", run.devices},
            {"counted", run.measured.counted},
            {"published_rate", published_rate(run)},
            {"predicted_rate", predicted_rate(run)},
            {"published_mfu", published},
            {"predicted_mfu", predicted},
            {"error_points", points_of_mfu(run)},
            {"mfu", run.mfu},
            {"mfu_with_attention", run.mfu_with_attention},
            {"fits", run.fits},
            {"fits_in_words", run.fits_in_words}});
  return j;
}

}  // namespace

int validate_published(const ValidationRequest& request) {
  const FamilyPrediction family = predict_families(measured_families({"published"})).front();
  const ErrorLimits& limits = family.limits.mfu;
  const auto errors = family.mfus();
  const bool within = errors && holds(limits, *errors);
  TextTable table{"run",        ">GPUs",   ">published",           ">predicted",      ">MFU published",
                  ">predicted", ">points", ">MFU of 6·parameters", ">with attention", "published rate counts"};
  std::string refused, assumed;
  nlohmann::ordered_json json{{"runs", nlohmann::ordered_json::array()}};
  for (const RunPrediction& run : family.runs) {
    table.rows.push_back(published_row(run));
    json["runs"].push_back(published_json(run));
    if (!run.refused.empty())
      refused += fmt::format("{}: {}\n", run.id, run.refused);
    else if (request.points)
      assumed += fmt::format("{}: assumed: {}\n", run.id, run.measured.assumed);
  }
  std::string text =
      "published runs (scenarios/published) against the simulator; nothing is fitted to them\n" + table.text();
  if (errors) {
    const double mean = errors->mean_abs * 100, worst = errors->worst_abs * 100;
    text += fmt::format("points of MFU: mean {:.1f}, worst {:.1f} (limits {} and {}: {})\n", mean, worst,
                        limits.mean * 100, limits.worst * 100, within ? "hold" : "FAIL");
    json.update({{"mean_abs_points", mean}, {"worst_abs_points", worst}, {"pass", within}});
  }
  report(request, text + refused + assumed, json);
  return within ? kGood : kFailsLimit;
}

}  // namespace trainyard
