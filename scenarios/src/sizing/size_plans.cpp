// Plans of one size that are tried on others, so that a search with little work gives no size that is slower than a smaller.
#include "scenarios/src/sizing/size_plans.hpp"

#include <algorithm>
#include <set>

#include "sim/process/job.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostSimulated = 3;  ///< plans of other sizes that are simulated on a size

/// Lists the legal plans with the choices of these points, of stages from half as many to twice as many: where the data-parallel
/// degree cannot follow the number of devices, that of the stages may.
std::vector<PlanPoint> near_plans(const PlanSpace& space, const std::vector<PlanPoint>& other_plans) {
  std::set<int> stages;
  for (const PlanPoint& group : space.groups()) stages.insert(group.pipeline);
  std::vector<PlanPoint> points;
  for (const PlanPoint& point : other_plans)
    for (const int number : stages) {
      if (number > 2 * point.pipeline || 2 * number < point.pipeline) continue;
      PlanPoint same = point;
      same.pipeline = number;
      PlanPoint plain = same;
      plain.schedule = "1f1b";
      plain.chunks = 1;
      for (const PlanPoint& each : {same, plain})
        if (const std::optional<PlanPoint> legal = space.legal_plan(each);
            legal && std::ranges::find(points, *legal) == points.end())
          points.push_back(*legal);
    }
  return points;
}

}  // namespace

void PlansOfSizes::keep(const SizeRow& row) {
  if (!row.good()) return;
  const Scenario s = read_scenario(row.document, row.model);
  if (s.plan.mesh.widths.empty()) sizes_.push_back({row, row.gpus, row.time, point_of(s)});
}

std::vector<PlanPoint> PlansOfSizes::for_size(const ClusterName& name) const {
  std::vector<PlanPoint> points;
  const Size *smaller = nullptr, *efficient = nullptr;
  for (const Size& size : sizes_) {
    if (!size.name.has_types_of(name)) continue;
    if (size.name.nodes == name.nodes) points.push_back(size.point);
    if (size.name.nodes < name.nodes && (!smaller || size.time < smaller->time)) smaller = &size;
    if (!efficient || size.device_time() < efficient->device_time()) efficient = &size;
  }
  for (const Size* size : {smaller, efficient})
    if (size && std::ranges::find(points, size->point) == points.end()) points.push_back(size->point);
  return points;
}

bool PlansOfSizes::has_better(const SizeRow& row) const {
  constexpr double least_gain = 0.01;  // sizes differ by less than this even with equal plans
  return std::ranges::any_of(sizes_, [&row](const Size& size) {
    const bool is_faster = size.name.nodes < row.nodes && size.time < row.time;
    return size.name.has_types_of(row) && (is_faster || size.device_time() < row.gpus * row.time * (1 - least_gain));
  });
}

PlanOutcome take_plan(const SizeQuestion& question, const PlanQuestion& plans, const PlanSpace& space,
                      const PlanPoint& point, std::int64_t own_batch, SizeRow& row) {
  row.plan = space.words(point);
  Node document = plans.base.document;
  *document.find("plan") = space.section(point);
  return question.take_training(std::move(document), own_batch, row);
}

void take_faster_plan(const SizeQuestion& question, const PlanQuestion& plans,
                      const std::vector<PlanPoint>& other_plans, std::int64_t own_batch, SizeRow& row) {
  const PlanSpace space(plans, sized_space(plans, question.document()));
  std::vector<PlanPoint> points = near_plans(space, other_plans);
  std::erase_if(points, [&](const PlanPoint& point) { return space.words(point) == row.plan; });
  if (points.empty()) return;
  Journal journal{std::filesystem::path()};
  PlanRunner runner(plans.base, space, journal);
  const std::vector<JudgedPlan> judged = runner.judged_points(points);
  end_if_interrupted();
  std::vector<SimulatedPlan> promising;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (judged[i].fits(runner.capacity() * (1 - row.headroom)) && (!row.good() || judged[i].floor < row.step_time))
      promising.push_back({points[i], judged[i].floor, {}});
  sort_stably(promising, [](const SimulatedPlan& a, const SimulatedPlan& b) { return a.floor < b.floor; });
  if (promising.size() > kMostSimulated) promising.resize(kMostSimulated);
  std::vector<PlanPoint> promising_points;
  for (const SimulatedPlan& plan : promising) promising_points.push_back(plan.point);
  const std::vector<PlanOutcome> outcomes = runner.outcomes(promising_points);
  end_if_interrupted();
  const SimulatedPlan* best = nullptr;
  for (std::size_t i = 0; i < promising.size(); ++i) {
    promising[i].outcome = outcomes[i];
    if (outcomes[i].leaves(row.headroom) && (!best || outcomes[i].step_time < best->outcome.step_time))
      best = &promising[i];
  }
  if (!best || (row.good() && best->outcome.step_time >= row.step_time)) return;
  try {
    SizeRow faster = row;
    faster.error.clear();
    take_plan(question, plans, space, best->point, own_batch, faster);
    row = std::move(faster);
  } catch (const UserError&) {  // the row keeps the plan of its search
  }
}

}  // namespace trainyard
