#include "tools/verbs/validation/validate_dataparallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "scenarios/src/studies/measured/dataparallel_study.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::json;

constexpr double kMostPoints = 0.03;  // mean, of servers

/// One set's points by what they are for: those that a factor was calibrated on are not judged.
struct Judged {
  std::string name;
  std::vector<ScalingPoint> points;
  double limit = 0;  ///< of the mean; 0: none
  double mean = 0, median = 0, p90 = 0, worst = 0, signed_mean = 0, rank = 0;
  bool holds() const { return limit == 0 || mean <= limit; }
};

Judged judged(std::string name, std::vector<ScalingPoint> points, double limit) {
  Judged set{std::move(name), std::move(points), limit};
  std::vector<double> sizes;
  std::vector<MeasuredPoint> pairs;
  for (const ScalingPoint& p : set.points) {
    sizes.push_back(std::abs(p.error()));
    set.mean += std::abs(p.error()) / static_cast<double>(set.points.size());
    set.signed_mean += p.error() / static_cast<double>(set.points.size());
    pairs.push_back({"", p.predicted, p.measured()});
  }
  set.median = quantile(sizes, 0.5);
  set.p90 = quantile(sizes, 0.9);
  set.worst = *std::max_element(sizes.begin(), sizes.end());
  set.rank = error_set(set.name, pairs).rank_correlation;
  return set;
}

std::string id_of(const ScalingPoint& p) {
  return fmt::format("{} batch {}, {} GPUs", p.row->model, p.row->batch, p.gpus);
}

Json json_of(const Judged& set, bool points) {
  Json j{{"name", set.name},
         {"n", set.points.size()},
         {"error_kind", "points"},
         {"mean_abs_error", set.mean},
         {"median_abs_error", set.median},
         {"p90_abs_error", set.p90},
         {"worst_abs_error", set.worst},
         {"signed_mean_error", set.signed_mean},
         {"rank_correlation", set.rank},
         {"pass", set.holds()}};
  for (const ScalingPoint& p : set.points)
    if (points) j["points"].push_back({{"id", id_of(p)}, {"predicted", p.predicted}, {"measured", p.measured()}});
  return j;
}

}  // namespace

int validate_data_parallel(const std::string& json_file, bool points) {
  const DataParallelStudy study = read_data_parallel_study();
  std::vector<Judged> sets;
  double asked = 0;  // of the K80s' factor, by the rows that it is calibrated on
  for (const DataParallelSet& set : study.sets) {
    std::vector<ScalingPoint> all = predict(set), kept;
    const bool calibrated = set.name == "k80-servers";
    const auto calibrates = [&](const ScalingPoint& p) { return calibrated && p.gpus == 2; };
    std::copy_if(all.begin(), all.end(), std::back_inserter(kept), [&](const auto& p) { return !calibrates(p); });
    double count = 0;
    for (const ScalingPoint& p : all)
      if (calibrates(p)) {
        asked += p.predicted / p.measured();
        ++count;
      }
    if (count > 0) asked /= count;
    sets.push_back(judged("scaling of " + set.name, kept, set.name.ends_with("servers") ? kMostPoints : 0));
  }
  const auto in_points = [](double v) { return fmt::format("{:.1f}", v * 100); };
  TextTable rows{{"row", "measured", "predicted", "error, points"}, {false, true, true, true}, {}};
  TextTable table{{"set", "n", "mean", "median", "worst", "signed mean", "rank", "limit"},
                  {false, true, true, true, true, true, true, false},
                  {}};
  bool holds = true;
  Json out = Json::array();
  for (const Judged& set : sets) {
    holds &= set.holds();
    out.push_back(json_of(set, points));
    for (const ScalingPoint& p : set.points)
      rows.rows.push_back({set.name.substr(11) + ": " + id_of(p), fmt::format("{:.3f}", p.measured()),
                           fmt::format("{:.3f}", p.predicted), fmt::format("{:+.1f}", p.error() * 100)});
    table.rows.push_back(
        {set.name, fmt::format("{}", set.points.size()), in_points(set.mean), in_points(set.median),
         in_points(set.worst), fmt::format("{:+.1f}", set.signed_mean * 100), fmt::format("{:.3f}", set.rank),
         set.limit == 0 ? "none: order only"
                        : fmt::format("mean {:.0f} points: {}", set.limit * 100, set.holds() ? "holds" : "FAILS")});
  }
  if (json_file != "-")
    fmt::print(
        "{}; scaling efficiency: the measured step of one GPU over the simulated step\n{}\n{}"
        "k80-servers: one factor on computing (scenarios/dataparallel/k80-servers.yaml), calibrated on its rows of 2 "
        "GPUs,\nwhich ask for {:.4f} times as much; judged on 4 and 8\n",
        study.source, rows.text(), table.text(), asked);
  if (!json_file.empty()) write_atomically(json_file, json_text(Json{{"sets", out}}, 2) + "\n");
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
