#include "scenarios/src/search/stage_division.hpp"

#include <algorithm>
#include <limits>

namespace trainyard {
namespace {

constexpr double kNoStage = std::numeric_limits<double>::infinity();

const std::optional<StageCost>& cost_of(const StageCosts& costs, const StageChoice& stage) {
  return costs[static_cast<std::size_t>(stage.from)][static_cast<std::size_t>(stage.to - stage.from - 1)]
              [static_cast<std::size_t>(stage.submesh)];
}

bool stage_fits(const StageCost& cost, int live_micro_batches, double capacity) {
  return cost.fixed_bytes + cost.micro_batch_bytes * live_micro_batches <= capacity;
}

/// A table of the least sums of stage times for the last layers, if no stage takes longer than a limit.
class StageTable {
 public:
  StageTable(const StageCosts& costs, const std::vector<Submesh>& shapes, int devices, int micro_batches,
             double capacity)
      : costs_(costs),
        shapes_(shapes),
        layers_(static_cast<int>(costs.size())),
        devices_(devices),
        micro_batches_(micro_batches),
        capacity_(capacity),
        most_stages_(std::min(layers_, devices)) {}

  /// Returns the least sum for all layers; infinite: there is no such division.
  double solve(double limit) {
    best_.assign(index(most_stages_ + 1, 0, 0), kNoStage);
    choice_.assign(best_.size(), StageChoice{});
    best_[index(0, layers_, 0)] = 0;
    for (int stages = 1; stages <= most_stages_; ++stages)
      for (int from = layers_ - 1; from >= 0; --from)
        for (int devices = 1; devices <= devices_; ++devices) fill(stages, from, devices, limit);
    double least = kNoStage;
    for (int stages = 1; stages <= most_stages_; ++stages) least = std::min(least, best_[index(stages, 0, devices_)]);
    return least;
  }

  /// Returns the stages of the last solution.
  std::vector<StageChoice> stages() const {
    int stages = 1;
    for (int n = 2; n <= most_stages_; ++n)
      if (best_[index(n, 0, devices_)] < best_[index(stages, 0, devices_)]) stages = n;
    std::vector<StageChoice> chosen;
    for (int from = 0, devices = devices_; from < layers_; --stages) {
      chosen.push_back(choice_[index(stages, from, devices)]);
      from = chosen.back().to;
      devices -= shapes_[static_cast<std::size_t>(chosen.back().submesh)].count();
    }
    return chosen;
  }

 private:
  const StageCosts& costs_;
  const std::vector<Submesh>& shapes_;
  int layers_, devices_, micro_batches_;
  double capacity_;
  int most_stages_;
  std::vector<double> best_;  // least sum by number of stages, first layer and remaining devices
  std::vector<StageChoice> choice_;

  std::size_t index(int stages, int from, int devices) const {
    return (static_cast<std::size_t>(stages) * static_cast<std::size_t>(layers_ + 1) + static_cast<std::size_t>(from)) *
               static_cast<std::size_t>(devices_ + 1) +
           static_cast<std::size_t>(devices);
  }

  void fill(int stages, int from, int devices, double limit) {
    const std::size_t position = index(stages, from, devices);
    const int live_micro_batches = std::min(stages, micro_batches_);
    for (int to = from + 1; to <= layers_; ++to)
      for (int shape = 0; shape < static_cast<int>(shapes_.size()); ++shape) {
        const int other_devices = devices - shapes_[static_cast<std::size_t>(shape)].count();
        if (other_devices < 0) break;  // the following shapes are larger
        const double rest_time = best_[index(stages - 1, to, other_devices)];
        if (rest_time == kNoStage) continue;
        const StageChoice choice{from, to, shape};
        const std::optional<StageCost>& cost = cost_of(costs_, choice);
        if (!cost || cost->time > limit || !stage_fits(*cost, live_micro_batches, capacity_)) continue;
        if (cost->time + rest_time >= best_[position]) continue;
        best_[position] = cost->time + rest_time;
        choice_[position] = choice;
      }
  }
};

std::vector<double> times_of(const StageCosts& costs) {
  std::vector<double> times;
  for (const auto& spans : costs)
    for (const auto& span_costs : spans)
      for (const auto& cost : span_costs)
        if (cost) times.push_back(cost->time);
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

}  // namespace

std::vector<Submesh> submeshes(int nodes, int devices_of_node) {
  std::vector<Submesh> all;
  for (int n = nodes; n >= 1; --n) all.push_back({n, devices_of_node});
  for (int part = devices_of_node; part > 1;) {
    int factor = 2;
    while (part % factor != 0) ++factor;
    all.push_back({1, part /= factor});
  }
  std::ranges::reverse(all);
  return all;
}

double pipeline_time(const StageCosts& costs, const std::vector<StageChoice>& stages, int micro_batches) {
  double sum = 0, slowest = 0;
  for (const StageChoice& stage : stages) {
    const double time = cost_of(costs, stage)->time;
    sum += time;
    slowest = std::max(slowest, time);
  }
  return sum + (micro_batches - 1) * slowest;
}

std::optional<StageDivision> divide_stages(const StageCosts& costs, const std::vector<Submesh>& shapes, int devices,
                                           int micro_batches, double capacity) {
  const std::vector<double> limits = times_of(costs);
  if (limits.empty()) return std::nullopt;
  StageTable table(costs, shapes, devices, micro_batches, capacity);
  const double least_sum = table.solve(limits.back());
  if (least_sum == kNoStage) return std::nullopt;
  // A larger limit allows more divisions. Find the first limit that allows any.
  const auto first = std::ranges::partition_point(limits, [&](double limit) { return table.solve(limit) == kNoStage; });
  StageDivision best{{}, kNoStage};
  for (auto limit = first; limit != limits.end(); ++limit) {
    // No division with this time of the slowest stage can be better.
    if (least_sum + (micro_batches - 1) * *limit >= best.time) break;
    if (table.solve(*limit) + (micro_batches - 1) * *limit >= best.time) continue;
    best.stages = table.stages();
    best.time = pipeline_time(costs, best.stages, micro_batches);
  }
  return best;
}

}  // namespace trainyard
