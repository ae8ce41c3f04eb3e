// The scaling of a sweep's points relative to a baseline.
#include "scenarios/src/studies/sweeps/scaling_knee.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

/// Least share of their ideal gain with which added GPUs still help.
constexpr double kHalfHelps = 0.5;

using nlohmann::ordered_json;

GpusAndRate scaling_of(const SweepPoint& point) {
  if (point.figures.empty() || !point.error.empty()) return {};
  const ordered_json figures = parse_ordered_json(point.figures);
  // A loop and engines scale by their answers.
  const char* const rate = figures.contains("post_training_samples_per_s") ? "post_training_samples_per_s"
                           : figures.contains("generation_requests_per_s") ? "generation_requests_per_s"
                                                                           : "samples_per_s";
  return {figures.value("gpus", 0.0), figures.value(rate, 0.0)};
}

}  // namespace

ScalingKnee knee_of(const std::vector<GpusAndRate>& points) {
  ScalingKnee knee{points.front(), points.front(), true};
  bool helps = true;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].rate > knee.fastest.rate) knee.fastest = points[i];
    const double gain = points[i].rate / points[i - 1].rate - 1, ideal_gain = points[i].gpus / points[i - 1].gpus - 1;
    helps = helps && gain >= kHalfHelps * ideal_gain;
    if (helps) knee.half = points[i];
  }
  knee.last = knee.fastest.gpus == points.back().gpus;
  return knee;
}

GpusAndRate add_scaling(std::vector<SweepPoint>& points, std::size_t baseline) {
  if (baseline < 1 || baseline > points.size())
    throw UserError(fmt::format("--baseline {}: a point from 1 to {} expected", baseline, points.size()));
  const GpusAndRate base = scaling_of(points[baseline - 1]);
  if (!(base.gpus > 0 && base.rate > 0))
    throw UserError(fmt::format("--baseline {}: that point is impossible: {}", baseline, points[baseline - 1].error));
  for (SweepPoint& point : points) {
    const GpusAndRate scaling = scaling_of(point);
    if (!(scaling.rate > 0)) continue;
    ordered_json figures = parse_ordered_json(point.figures);
    const double ideal = base.rate * scaling.gpus / base.gpus;
    figures["speedup"] = scaling.rate / base.rate;
    figures["ideal_samples_per_s"] = ideal;
    figures["scaling_efficiency"] = scaling.rate / ideal;
    point.figures = json_text(figures);
  }
  return base;
}

std::vector<GpusAndRate> scaling_points(const std::vector<SweepPoint>& points) {
  std::vector<GpusAndRate> all;
  for (const SweepPoint& point : points)
    if (const GpusAndRate scaling = scaling_of(point); scaling.rate > 0) all.push_back(scaling);
  std::ranges::sort(all, [](const GpusAndRate& a, const GpusAndRate& b) {
    return a.gpus != b.gpus ? a.gpus < b.gpus : a.rate > b.rate;
  });
  const auto same = [](const GpusAndRate& a, const GpusAndRate& b) { return a.gpus == b.gpus; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

std::string scaling_knee(const std::vector<GpusAndRate>& points) {
  if (points.size() < 2) return "";
  const auto [fastest, half, last] = knee_of(points);
  std::string text =
      fmt::format("limit      {} GPUs {} ({:.4g} samples/s)", fastest.gpus,
                  last ? "are the fastest (the sweep has no more)" : "are the most that help", fastest.rate);
  text += half.gpus < fastest.gpus
              ? fmt::format("; beyond {}, more GPUs give less than half of their ideal gain\n", half.gpus)
              : "; up to there, more GPUs give at least half of their ideal gain\n";
  return text;
}

}  // namespace trainyard
