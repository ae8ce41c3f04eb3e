// The sizes that the search for the fewest nodes leaves out, and those among them that may be a decision.
#include "scenarios/src/sizing/size_gaps.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "scenarios/src/sizing/size_growth.hpp"
#include "scenarios/src/sizing/size_plans.hpp"

namespace trainyard {
namespace {

class NextSizes {
 public:
  NextSizes(SizeAnswer& answer, const SizeQuestion& question, const std::vector<SizeCase>& cases,
            const IslandSearches& searches)
      : answer_(answer),
        question_(question),
        cases_(cases),
        searches_(searches),
        unit_(std::max(1, question.options().unit)) {}

  void run() {
    const double work = question_.options().work, seconds = question_.options().search_seconds;
    const int most =
        work > 0 && seconds <= 0
            ? static_cast<int>(std::clamp(kNextSizes * kWorkOfCluster / work, 1.0 * kNextSizes, 1.0 * kMostNextSizes))
            : kNextSizes;
    for (int count = 0;; ++count) {
      find_gaps();
      judge_sizes(answer_, question_.prices());
      const SizeGap* next = count < most ? wanted() : nullptr;
      if (!next) return;
      simulate(*next);
    }
  }

 private:
  SizeAnswer& answer_;
  const SizeQuestion& question_;
  const std::vector<SizeCase>& cases_;
  const IslandSearches& searches_;
  const int unit_;
  std::set<std::string> searched_;  // names of the sizes that were searched here

  SizeRow* find_row(const ClusterName& name) const {
    const auto found = std::ranges::find_if(
        answer_.rows, [&name](const SizeRow& row) { return row.nodes == name.nodes && row.has_types_of(name); });
    return found == answer_.rows.end() ? nullptr : &*found;
  }
  static std::string words_of(const ClusterName& name) {
    return name.model + " on " + nodes_in_words(name.nodes, name.node, name.beside_nodes, name.beside);
  }

  int room_for(const SizeCase& size_case) const {
    for (const SiteLimit& limit : answer_.site_limits)
      if (limit.node == size_case.node.name) return std::min(limit.nodes, kMostSizedNodes);
    return kMostSizedNodes;
  }

  void find_gaps() {
    answer_.gaps.clear();
    for (const SizeCase& size_case : question_.all_cases(cases_, answer_.rows)) {
      int fewest = 0;
      const ClusterName name = question_.name_of(size_case);
      for (const SizeRow& row : answer_.rows) {
        const bool counts = row.has_types_of(name) && row.good();
        if (counts && meets_deadline(answer_, row) && (fewest == 0 || row.nodes < fewest)) fewest = row.nodes;
      }
      if (fewest == 0) continue;
      add_above(size_case, name, fewest);
      add_below(name, fewest);
    }
  }

  /// Adds the numbers above the fewest ones and those that follow them without a gap.
  void add_above(const SizeCase& size_case, const ClusterName& name, int fewest) {
    const int room = room_for(size_case);
    SizeGap gap{name, fewest, room, 0};
    NodeCounts counts{unit_, room, [&](int nodes) { return searches_.has_plan(size_case, nodes); }, {}};
    for (int nodes = fewest; (nodes = next_with_plan(counts, nodes)) > 0 && gap.nodes == 0;) {
      ClusterName size = name;
      size.nodes = nodes;
      if (const SizeRow* row = find_row(size))
        gap.from = row->good() ? nodes : gap.from;
      else
        gap.nodes = nodes;
    }
    if (gap.nodes == 0) return;
    if (!answer_.purchase) take_rounder(counts, gap);
    for (const SizeRow& row : answer_.rows)
      if (row.has_types_of(name) && row.nodes > gap.nodes) gap.most = std::min(gap.most, row.nodes - unit_);
    if (answer_.purchase && answer_.total_years <= 0) {
      const NodeType& type = size_case.node;
      const Purchase& purchase = question_.prices().purchase;
      const int bought = std::max(0, gap.nodes - purchase.number_owned(type.name));
      if (bought > 0) gap.least_cost = bought * purchase.node_price(type.name, type.gpu.name, type.gpus, bought);
    }
    answer_.gaps.push_back(gap);
  }

  /// If the last simulated number takes more node-days than a smaller one, because few splits divide a batch among its nodes,
  /// takes a doubling of the smaller one as the next number. A rent may cost less there.
  void take_rounder(const NodeCounts& counts, SizeGap& gap) const {
    constexpr double least_gain = 0.05;
    const SizeRow *efficient = nullptr, *last = nullptr;
    const auto node_days = [](const SizeRow& row) { return row.nodes * row.days(); };
    for (const SizeRow& row : answer_.rows) {
      if (!row.has_types_of(gap) || !row.good() || row.nodes > gap.from) continue;
      if (row.nodes == gap.from) last = &row;
      if (!efficient || node_days(row) < node_days(*efficient)) efficient = &row;
    }
    if (!efficient || !last || node_days(*last) < node_days(*efficient) * (1 + least_gain)) return;
    int rounder = efficient->nodes;
    while (rounder <= gap.from) rounder *= 2;
    ClusterName size = gap;
    size.nodes = rounder;
    if (rounder > counts.most || find_row(size) || !counts.has_plan(rounder)) return;
    gap.nodes = rounder;
    gap.efficient = efficient->nodes;
  }

  /// Adds the largest number below the fewest ones if its search ended as soon as it was known to be late.
  void add_below(const ClusterName& name, int fewest) {
    const SizeRow* below = nullptr;
    for (const SizeRow& row : answer_.rows)
      if (row.has_types_of(name) && row.nodes < fewest && (!below || row.nodes > below->nodes)) below = &row;
    if (!below || below->good() || below->refused || below->too_large) return;
    if (searched_.contains(words_of(*below))) return;
    SizeGap gap{name, fewest, 0, 0};
    gap.nodes = below->nodes;
    answer_.gaps.push_back(gap);
  }

  /// Returns the gap whose next size is searched: that of the next way, then that of the nearest threshold. Null: none.
  const SizeGap* wanted() const {
    const std::vector<Payment> payments = payments_of(answer_);
    const Payment* decision = decided_payment(answer_, payments);
    if (!decision) return nullptr;
    if (const SizeGap* gap = gap_before_next(answer_, payments, *decision)) return gap;
    const SizeGap* nearest = nullptr;
    double least = HUGE_VAL;
    for (const SizeThreshold& threshold : answer_.thresholds) {
      const double distance = std::abs(threshold.threshold / threshold.value - 1);
      if (threshold.number.empty() || distance >= least) continue;
      for (const SizeGap& gap : answer_.gaps)
        if (gap.has_types_of(threshold) && gap.from == threshold.nodes && gap.words() == threshold.number) {
          nearest = &gap;
          least = distance;
        }
    }
    return nearest;
  }

  void simulate(const SizeGap& gap) {
    const ClusterName name = gap;
    searched_.insert(words_of(name));
    SizeRow row = searches_.row(*question_.case_of(name, cases_), name.nodes, 0);
    if (SizeRow* same = find_row(name))
      *same = std::move(row);
    else
      answer_.rows.push_back(std::move(row));
    if (question_.options().searched) question_.options().searched(answer_);
  }
};

}  // namespace

void search_next_sizes(SizeAnswer& answer, const SizeQuestion& question, const std::vector<SizeCase>& cases,
                       const IslandSearches& searches) {
  if (question.options().gpus <= 0) NextSizes(answer, question, cases, searches).run();
}

const Payment* next_payment(const SizeAnswer& answer, const std::vector<Payment>& payments, const Payment& decision) {
  const Payment* next = nullptr;
  for (const Payment& payment : payments)
    if (!payment.is_same(decision) && meets_all(answer, payment) &&
        payment.row->parameters == decision.row->parameters &&
        (!next || is_better_payment(payment, payment.cost, *next, next->cost)))
      next = &payment;
  return next;
}

const SizeGap* gap_before_next(const SizeAnswer& answer, const std::vector<Payment>& payments,
                               const Payment& decision) {
  const Payment* next = next_payment(answer, payments, decision);
  for (const SizeGap& gap : answer.gaps) {
    if (!gap.is_above() || !decision.row->has_types_of(gap) || decision.row->nodes != gap.from) continue;
    const double least_cost = std::max(gap.least_cost, decision.cost);
    if ((!next || least_cost < next->cost) && (answer.budget <= 0 || least_cost <= answer.budget)) return &gap;
  }
  return nullptr;
}

}  // namespace trainyard
