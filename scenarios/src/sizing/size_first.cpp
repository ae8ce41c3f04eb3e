// The first answer of a question about clusters: bounds of all node types, and one simulated plan.
#include "scenarios/src/sizing/size_first.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/sizing/size_payments.hpp"
#include "scenarios/src/sizing/size_plans.hpp"
#include "sim/process/job.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kNoPlainPlan = std::numeric_limits<double>::infinity();
constexpr std::size_t kFirstTries = 3;    ///< node types whose plain plans may be simulated for a first answer
constexpr int kMostTries = 4;             ///< numbers of nodes that are tried for a bound or a first row
constexpr std::size_t kJudgedGroups = 8;  ///< groups whose plans are judged together

/// Returns the smallest of 1, 2, 3, 4, 6, 8, 12, 16 ... units that is not below a number of nodes.
int round_size(double nodes, int unit) {
  int size = unit;
  for (int power = 1; size < nodes && power < 1 << 20; power *= 2) {
    size = power * unit;
    if (size < nodes && power >= 2) size = power / 2 * 3 * unit;
  }
  return size;
}

template <class Iterator>
void sort_by_promise(Iterator first, Iterator last) {
  const auto rank = [](const SizeBound& b) { return b.days <= 0 ? 2 : b.in_time ? 0 : 1; };
  std::stable_sort(first, last, [&](const PromisingCase& a, const PromisingCase& b) {
    return std::pair(rank(a.bound), a.bound.cost) < std::pair(rank(b.bound), b.bound.cost);
  });
}

double steps_to_days(double step_time, double steps) { return step_time * steps / kSecondsOfDay; }

/// Returns the lowest cost of a training of these days: a purchase price, what owning costs without power, a rent, or
/// device-hours.
double least_cost(const SizeQuestion& question, const SizeCase& size_case, int nodes, double days) {
  constexpr double hours_of_day = 24;
  const NodeType& node = size_case.node;
  const Prices& prices = question.prices();
  const double hours = days * hours_of_day * nodes * node.gpus;
  if (question.options().purchase)
    return prices.purchase.node_price(node.name, node.gpu.name, node.gpus, nodes) *
           std::max(0, nodes - prices.purchase.number_owned(node.name)) *
           (question.options().by_total ? prices.purchase.yearly_share() * prices.purchase.years : 1);
  return prices.is_given() ? hours * prices.gpu_hour(node.name, node.gpu.name, node.gpus) : hours;
}

}  // namespace

PlainPlans::PlainPlans(PlanQuestion question, const PlanSpaceOptions& space)
    : question_(std::move(question)),
      space_(question_, space),
      journal_(std::filesystem::path()),
      runner_(question_.base, space_, journal_) {
  rank(false);
  if (groups_.empty()) rank(true);
}

void PlainPlans::rank(bool recomputes) {
  const int tensor = plain_tensor(question_.base.cluster.node.gpus);
  std::vector<PlanPoint> groups;
  for (const PlanPoint& group : space_.groups())
    if ((group.tensor == 1 || group.tensor == tensor) && group.context <= 1 && group.micro_batch == 1 &&
        (group.recompute != "none") == recomputes)
      groups.push_back(group);
  const std::vector<double> floors = runner_.group_floors(groups);
  end_if_interrupted();
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (floors[i] < kNoPlainPlan) groups_.emplace_back(floors[i], groups[i]);
  sort_stably(groups_, [](const auto& a, const auto& b) { return a.first < b.first; });
}

double PlainPlans::floor() { return groups_.empty() ? kNoPlainPlan : groups_.front().first; }

std::optional<SimulatedPlan> PlainPlans::next(double headroom, double useful) {
  const double usable = runner_.capacity() * (1 - headroom);
  while (next_ < groups_.size()) {
    std::vector<PlanPoint> points;
    for (const std::size_t end = std::min(groups_.size(), next_ + kJudgedGroups); next_ < end; ++next_)
      for (const PlanPoint& point : space_.points(groups_[next_].second))
        if (point.zero <= ZeroStage::optimizer && point.chunks == 1 && point.offload == "none") points.push_back(point);
    const std::vector<JudgedPlan> judged = runner_.judged_points(points);
    end_if_interrupted();
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (judged[i].fits(usable) && (!best || judged[i].floor < judged[*best].floor)) best = i;
    if (!best) continue;
    if (judged[*best].floor >= useful) return std::nullopt;
    return SimulatedPlan{points[*best], judged[*best].floor, {}};
  }
  return std::nullopt;
}

std::optional<SimulatedPlan> PlainPlans::simulate(double headroom, double useful) {
  while (std::optional<SimulatedPlan> plan = next(headroom, useful)) {
    plan->outcome = runner_.outcomes({plan->point}).front();
    end_if_interrupted();
    if (plan->outcome.leaves(headroom)) return plan;
  }
  return std::nullopt;
}

SizeBound bound_of(SizeQuestion& question, const SizeCase& size_case, int room) {
  SizeBound bound;
  bound.model = question.model_of(size_case);
  bound.node = size_case.node.name;
  const SizeOptions& options = question.options();
  const int unit = std::max(1, options.unit), gpus = size_case.node.gpus;
  constexpr double hours_of_day = 24;
  try {
    const double days = question.days_left(size_case, room);
    double wanted = options.gpus > 0 ? std::ceil(1.0 * options.gpus / gpus)
                                     : question.rough_hours(size_case) / (days * hours_of_day * gpus);
    if (options.gpus > 0) question.rough_hours(size_case);  // takes the tokens
    for (int tries = 0; tries < kMostTries; ++tries) {
      int nodes = options.gpus > 0 ? static_cast<int>(std::ceil(wanted / unit)) * unit : round_size(wanted, unit);
      if (options.gpus <= 0) nodes = std::min(nodes, room / unit * unit);
      if (nodes <= bound.nodes || nodes > room) break;
      const PlanQuestion plans = read_plan_question(question.scenario(size_case, nodes, true), question.name());
      const double floor = PlainPlans(plans, sized_space(plans, question.document())).floor();
      wanted = nodes + 1.0;
      bound.nodes = nodes;
      if (floor == kNoPlainPlan) {
        if (options.gpus > 0) break;  // other numbers are not asked about
        continue;
      }
      bound.days = steps_to_days(floor, question.steps_of(plans.base));
      bound.cost = least_cost(question, size_case, nodes, bound.days);
      const double left = question.days_left(size_case, nodes);
      bound.in_time = bound.days <= left;
      if (bound.in_time || options.gpus > 0) break;
      wanted = std::max(wanted, nodes * bound.days / left);
    }
  } catch (const UserError&) {  // the search of the case reports why
  }
  return bound;
}

namespace {

/// Takes the first plain plan that leaves the headroom of the row. It is simulated once, with its whole training. Returns
/// false if there is none.
bool take_first_plan(const SizeQuestion& question, const PlanQuestion& read, PlainPlans& plans, SizeRow& row) {
  while (const std::optional<SimulatedPlan> plan = plans.next(row.headroom)) {
    SizeRow tried = row;
    if (!take_plan(question, read, plans.space(), plan->point, row.batch, tried).leaves(row.headroom)) continue;
    row = std::move(tried);
    return true;
  }
  return false;
}

}  // namespace

std::optional<SizeRow> first_row(SizeQuestion& question, const SizeCase& size_case, const SizeBound& bound, int room) {
  std::optional<SizeRow> best;
  const SizeOptions& options = question.options();
  const int unit = std::max(1, options.unit);
  question.rough_hours(size_case);
  int nodes = bound.nodes;
  for (int tries = 0; tries < kMostTries && nodes > 0 && nodes <= room; ++tries) {
    SizeRow row;
    static_cast<ClusterName&>(row) = {bound.model, bound.node, nodes};
    row.gpus = nodes * size_case.node.gpus;
    double wanted = nodes + 1.0;
    try {
      const PlanQuestion read = read_plan_question(question.scenario(size_case, nodes, true), question.name());
      PlainPlans plans(read, sized_space(read, question.document()));
      row.headroom = options.headroom.value_or(default_headroom(read.base));
      row.batch = read.base.global_batch_size;
      if (take_first_plan(question, read, plans, row)) {
        const double left = question.days_left(size_case, nodes);
        if (!best || row.time < best->time) best = row;
        if (row.days() <= left) break;
        wanted = std::max(wanted, nodes * row.days() / left);
      }
    } catch (const UserError&) {  // the search of the case reports why
    }
    if (options.gpus > 0) break;
    nodes = round_size(wanted, unit);
  }
  return best;
}

void FirstAnswer::find(std::vector<PromisingCase>& cases) {
  const SizeOptions& options = question_.options();
  const bool is_answered = options.first_answer || options.shard.is_whole();
  const std::size_t early = cases.size() > 2 * kFirstTries ? kFirstTries : 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    cases[i].bound = bound_of(question_, *cases[i].size_case, cases[i].room());
    bounds_.push_back(cases[i].bound);
    if (options.progress) options.progress(fmt::format("{} of {} node types bounded", i + 1, cases.size()));
    if (is_answered && i + 1 == early)
      simulate(std::vector<PromisingCase>(cases.begin(), cases.begin() + static_cast<std::ptrdiff_t>(early)),
               cases.size());
  }
  for (auto first = cases.begin(); first != cases.end();) {
    const auto last = std::find_if(first, cases.end(), [&](const PromisingCase& other) {
      return other.size_case->model != first->size_case->model;
    });
    sort_by_promise(first, last);
    first = last;
  }
  bounds_.clear();
  for (const PromisingCase& each : cases) bounds_.push_back(each.bound);
  if (is_answered) simulate(cases, cases.size());
}

void FirstAnswer::simulate(std::vector<PromisingCase> cases, std::size_t all_cases) {
  sort_by_promise(cases.begin(), cases.end());
  std::optional<SizeRow> found;
  for (std::size_t i = 0; i < std::min(kFirstTries, cases.size()) && !found; ++i) {
    const SizeBound& bound = cases[i].bound;
    if (row_ && row_->node == bound.node && row_->model == bound.model) return;  // it was reported before
    if (bound.days > 0) found = first_row(question_, *cases[i].size_case, bound, cases[i].room());
  }
  if (row_ && (!found || !is_better_row(answer_, *found, *row_))) return;
  row_ = found;
  if (row_)
    if (const std::optional<Payment> payment = best_payment(answer_, *row_)) apply_payment(answer_, *payment, *row_);
  std::vector<SizeBound> bounds;
  for (const PromisingCase& each : cases) bounds.push_back(each.bound);
  if (question_.options().first_answer) question_.options().first_answer(bounds, all_cases, row_ ? &*row_ : nullptr);
}

void keep_first_row(SizeAnswer& answer, const SizeRow& first_row) {
  const auto meets = [&answer](const SizeRow& row) {
    const std::optional<Payment> payment = best_payment(answer, row);
    return payment && meets_all(answer, *payment);
  };
  const bool is_needed = !answer.unfinished.empty() || (meets(first_row) && std::ranges::none_of(answer.rows, meets));
  if (!is_needed) return;
  const auto same =
      std::ranges::find_if(answer.rows, [&first_row](const SizeRow& row) { return row.has_nodes_of(first_row); });
  if (same == answer.rows.end())
    answer.rows.push_back(first_row);
  else if (!same->good() || first_row.time < same->time)
    *same = first_row;
}

}  // namespace trainyard
