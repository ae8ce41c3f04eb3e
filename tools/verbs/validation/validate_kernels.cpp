#include "tools/verbs/validation/validate_kernels.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "models/fitted/gemm_fit.hpp"
#include "models/fitted/roofline_fit.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// What a set is held to: the median and the 90th percentile of its errors.
struct KernelLimits {
  double median, p90;
};
const std::map<std::string, KernelLimits> kGemmLimits{
    {"ampere", {0.05, 0.17}}, {"hopper", {0.05, 0.17}}, {"blackwell", {0.07, 0.24}}};
constexpr KernelLimits kAttentionLimits{0.1, 0.25};

ErrorSet products_of(const Gpu& gpu) {
  const MeasuredProducts products =
      read_products(shipped_file("scenarios/measured/tables/gemm.csv"), gpu, gpu.measured_as);
  std::vector<MeasuredPoint> points;
  for (const MeasuredProduct& row : products.judged)
    points.push_back({fmt::format("{} x {} x {}", row.shape.m, row.shape.n, row.shape.k),
                      product_time(gpu, row.shape).value, row.time.value});
  return error_set("gemm bf16 on " + gpu.name, std::move(points));
}

ErrorSet attention_of(const Gpu& gpu) {
  std::vector<MeasuredPoint> points;
  for (const JudgedKernel& row :
       judge_roofline(shipped_file("scenarios/measured/tables/attention.csv"), Kernel::attention, gpu, gpu.measured_as))
    points.push_back({fmt::format("{:.4g} FLOP", row.work.flops.value), row.predicted.value, row.measured.value});
  return error_set("attention bf16 on " + gpu.name, std::move(points));
}

struct JudgedSet {
  ErrorSet errors;
  KernelLimits limits;
  bool holds() const { return errors.median_abs <= limits.median && errors.p90_abs <= limits.p90; }
};

std::vector<JudgedSet> judged_sets(std::string& unmeasured) {
  const Catalog catalog;
  std::vector<JudgedSet> sets;
  for (const std::string& name : catalog.names("gpu")) {
    const Gpu gpu = read_gpu(catalog.resolve("gpu", Node::of_text(name)));
    if (gpu.measured_as.empty()) {
      unmeasured += fmt::format("{}{} ({})", unmeasured.empty() ? "" : ", ", name,
                                gpu.gemm.given ? gpu.architecture : "roofline");
      continue;
    }
    sets.push_back({products_of(gpu), kGemmLimits.at(gpu.architecture)});
    sets.push_back({attention_of(gpu), kAttentionLimits});
  }
  return sets;
}

}  // namespace

int validate_kernels(const std::string& json_file, bool points) {
  std::string unmeasured;
  TextTable table{{"set", "n", "mean", "median", "p90", "worst", "signed mean", "limit"},
                  {false, true, true, true, true, true, true, false},
                  {}};
  TextTable rows{{"kernel", "measured", "predicted", "error"}, {false, true, true, true}, {}};
  nlohmann::json out = nlohmann::json::array();
  bool holds = true;
  for (const JudgedSet& set : judged_sets(unmeasured)) {
    const ErrorSet& e = set.errors;
    holds &= set.holds();
    table.rows.push_back({e.name, fmt::format("{}", e.n), percent(e.mean_abs), percent(e.median_abs),
                          percent(e.p90_abs), percent(e.worst_abs), signed_percent(e.signed_mean),
                          fmt::format("median {:.0f} %, p90 {:.0f} %: {}", set.limits.median * 100,
                                      set.limits.p90 * 100, set.holds() ? "holds" : "FAILS")});
    for (const MeasuredPoint& p : e.points)
      rows.rows.push_back({e.name.substr(0, e.name.find(" bf16")) + " " + p.id + e.name.substr(e.name.find(" on ")),
                           show(Seconds{p.measured}), show(Seconds{p.predicted}), signed_percent(p.error())});
    nlohmann::json json = to_json(e, points);
    json["pass"] = set.holds();
    out.push_back(std::move(json));
  }
  if (json_file != "-")
    fmt::print(
        "{}shapes left out of the fit: scenarios/measured/tables, gemm.csv and attention.csv\n{}"
        "not measured, by the constants of their architecture: {}\n",
        points ? rows.text() + "\n" : "", table.text(), unmeasured);
  if (!json_file.empty()) write_atomically(json_file, json_text(nlohmann::json{{"sets", out}}, 2) + "\n");
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
