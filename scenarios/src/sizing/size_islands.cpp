// Owned nodes and bought ones of another type: alone, in one job, or with a job on each.
#include "scenarios/src/sizing/size_islands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "scenarios/src/sizing/size_island_rows.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// Types of nodes to buy that are compared if the question names none: those that cost least alone.
constexpr std::size_t kIslandTypes = 3;
constexpr int kMostIslandNodes = 4096;

class IslandSearch : IslandRows {
 public:
  IslandSearch(SizeAnswer& answer, SizeQuestion& question, const std::vector<SizeCase>& cases,
               const IslandSearches& searches)
      : IslandRows(answer, question),
        question_(question),
        cases_(cases),
        searches_(searches),
        unit_(std::max(1, question.options().unit)) {}

  void run() {
    for (const auto& [name, count] : question_.prices().purchase.owned_nodes) {
      if (count <= 0) continue;
      try {
        const Catalog& catalog = question_.catalog();
        compare({read_node(catalog.resolve("node", Node::scalar_node(name)), catalog), count});
      } catch (const UserError& e) {
        answer_.left_out.push_back(fmt::format("owned {} (one job with bought nodes: {})", name, e.what()));
      }
    }
  }

 private:
  SizeQuestion& question_;
  const std::vector<SizeCase>& cases_;
  const IslandSearches& searches_;
  const int unit_;
  std::map<std::pair<std::string, int>, SizeRow> more_rows_;  // sizes that the table of sizes does not have

  /// Returns true if switches can join nodes of this type with others.
  static bool can_be_joined(const NodeType& node) { return !is_tpu(node) && node.fabric.empty() && node.hcas > 0; }

  void compare(const OwnedNodes& owned) {
    if (!can_be_joined(owned.node)) return;
    const std::vector<SizeCase> others = promising_cases(owned);
    if (others.empty()) return;
    SizeIslands islands{owned.node.name, owned.nodes, owned.nodes * owned.node.gpus, "", {}};
    const SizeRow own_row = owned_alone({others.front().model, owned.node}, owned.nodes);
    const bool is_known = std::ranges::any_of(answer_.rows, [&own_row](const SizeRow& row) {
      return row.node == own_row.node && row.nodes == own_row.nodes && row.beside.empty();
    });
    if (!is_known) answer_.rows.push_back(own_row);
    islands.rows.push_back(island(IslandKind::owned_alone, own_row));
    if (const SizeRow* more = best_row(owned.node.name, ""); more && more->good() && more->nodes > owned.nodes)
      islands.rows.push_back(island(IslandKind::more_owned, *more));
    const bool is_enough = own_row.good() && meets_deadline(answer_, own_row);
    for (const SizeCase& other : others) {
      if (const SizeRow* alone = best_row(other.node.name, ""))
        islands.rows.push_back(island(IslandKind::bought_alone, *alone));
      if (is_enough) continue;  // nothing need be bought
      compare_with(owned, own_row, other, islands.rows);
    }
    answer_.islands.push_back(std::move(islands));
  }

  /// Lists the cases of other types that could be bought, the cheapest first.
  std::vector<SizeCase> promising_cases(const OwnedNodes& owned) const {
    std::vector<SizeCase> others;
    for (const SizeCase& other : cases_)
      if (other.node.name != owned.node.name && can_be_joined(other.node)) others.push_back(other);
    const auto rank = [this](const SizeCase& other) {
      const SizeRow* best = best_row(other.node.name, "");
      const bool is_late = !best || !meets_deadline(answer_, *best);
      return std::tuple(is_late, best && best->good() ? size_cost(answer_, *best) : HUGE_VAL);
    };
    sort_stably(others, [&rank](const SizeCase& a, const SizeCase& b) { return rank(a) < rank(b); });
    if (question_.options().node_types.empty() && others.size() > kIslandTypes)
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(kIslandTypes), others.end());
    return others;
  }

  /// Returns nodes of one type, from the table of sizes if it has them with figures.
  const SizeRow& row_alone(const SizeCase& size_case, int nodes) {
    for (const SizeRow& row : answer_.rows)
      if (row.good() && row.node == size_case.node.name && row.nodes == nodes && row.beside.empty()) return row;
    const auto [found, is_new] = more_rows_.try_emplace({size_case.node.name, nodes});
    if (is_new) found->second = searches_.row(size_case, nodes, 0);
    return found->second;
  }

  /// Returns the owned nodes that cost least and meet the deadline. If none do, returns the fastest ones.
  SizeRow owned_alone(const SizeCase& size_case, int most) {
    SizeRow best;
    const auto look = [&](int nodes, bool) {
      const SizeRow& row = row_alone(size_case, nodes);
      const auto rank = [this](const SizeRow& each) {
        const bool is_enough = each.good() && meets_deadline(answer_, each);
        return std::tuple(!each.good(), !is_enough, is_enough ? size_cost(answer_, each) : 0, each.time);
      };
      if (best.nodes == 0 || rank(row) < rank(best)) best = row;
      return tried(row);
    };
    look(most, false);
    find_fewest_nodes(most, {unit_, most, [&](int nodes) { return searches_.has_plan(size_case, nodes); }, look});
    for (std::size_t i = 0; i < answer_.rows.size(); ++i)
      if (const SizeRow& row = answer_.rows[i];
          row.good() && row.node == size_case.node.name && row.beside.empty() && row.nodes <= most)
        look(row.nodes, false);
    return best;
  }

  void compare_with(const OwnedNodes& owned, const SizeRow& own_row, const SizeCase& other,
                    std::vector<SizeIsland>& rows) {
    SizeIsland refused;
    refused.kind = IslandKind::one_job;
    refused.node = other.node.name;
    int most = kMostIslandNodes;
    const std::optional<Site> site = question_.site_for(other.node);
    if (site)
      if (const auto limit = site_limit(*site, other.node, question_.catalog())) most = std::min(most, limit->nodes);
    most = site ? most / unit_ * unit_ : 0;
    const int stated = stated_nodes(owned, other);
    if (question_.options().gpus > 0 && stated <= 0) return;  // the owned nodes have so many devices
    if (most == 0 || stated > most) {
      refused.error = fmt::format("the site has room for {} x {} beside the owned nodes", most, other.node.name);
      rows.push_back(refused);
      return;
    }
    question_.rough_hours(other);  // takes the tokens
    SizeCase both = other;
    both.beside = owned;
    const int guess = first_guess(other, own_row);
    const auto look = [&](int nodes, bool late_is_enough) { return tried(row_of_both(both, nodes, late_is_enough)); };
    find(both, guess, most, stated, look);
    while (searches_.improve(both)) find(both, guess, most, stated, look);
    if (const SizeRow* best = best_row(other.node.name, owned.node.name)) {
      const SizeRow row = *best;
      SizeIsland one_job = island(IslandKind::one_job, row);
      if (one_job.good() && own_row.good())
        if (const SizeRow& alone = row_alone(other, row.nodes); alone.good())
          one_job.of_two_jobs = one_job.samples_per_s / (samples_per_s(own_row) + samples_per_s(alone));
      rows.push_back(one_job);
    }
    if (own_row.good()) add_two_jobs(own_row, other, most, stated, rows);
  }

  /// Returns the number of nodes to buy if the question states that of all devices, else 0.
  int stated_nodes(const OwnedNodes& owned, const SizeCase& other) const {
    const int missing = question_.options().gpus - owned.nodes * owned.node.gpus;
    if (missing <= 0) return 0;
    const int nodes = (missing + other.node.gpus - 1) / other.node.gpus;
    return (nodes + unit_ - 1) / unit_ * unit_;
  }

  /// Returns the nodes that would be enough if the owned ones did their part of the work until the deadline.
  int first_guess(const SizeCase& other, const SizeRow& own_row) const {
    const SizeRow* alone = best_row(other.node.name, "");
    if (!alone || !alone->good()) return unit_;
    const double left = question_.days_left(other, alone->nodes),
                 needed = alone->nodes * alone->days() / left *
                          (own_row.good() ? std::max(0.0, 1 - answer_.days / own_row.days()) : 1);
    return std::max(unit_, static_cast<int>(std::ceil(needed / unit_)) * unit_);
  }

  using Look = std::function<NodesOutcome(int nodes, bool late_is_enough)>;
  /// Returns the fewest nodes that meet the deadline, or the stated number.
  int find(const SizeCase& size_case, int guess, int most, int stated, const Look& look) const {
    if (stated > 0) {
      look(stated, false);
      return stated;
    }
    const NodeCounts counts{unit_, most, [&](int nodes) { return searches_.has_plan(size_case, nodes); }, look,
                            size_case.beside ? size_case.beside->nodes : 0};
    return find_fewest_nodes(std::min(guess, most), counts).in_time;
  }

  NodesOutcome tried(const SizeRow& row) const { return {row.good(), meets_deadline(answer_, row), row.time}; }

  SizeRow row_of_both(const SizeCase& both, int nodes, bool late_is_enough) {
    for (const SizeRow& row : answer_.rows)
      if (row.node == both.node.name && row.beside == both.beside->node.name && row.nodes == nodes) return row;
    answer_.rows.push_back(searches_.row(both, nodes, late_is_enough ? question_.days_left(both, nodes) : 0));
    return answer_.rows.back();
  }

  /// The part of the samples that the owned nodes train on so that both jobs end at the same time.
  double owned_part(const SizeRow& own_row, const SizeRow& bought) const {
    const double wait = bought.ownership ? bought.ownership->delivery / kSecondsOfDay : 0;
    return std::min(1.0, (wait + bought.days()) / (own_row.days() + bought.days()));
  }

  /// Returns the job of a row on a part of its samples, as if its time were in proportion to them.
  PartOfTraining part_of(const SizeRow& row, double share) const {
    PartOfTraining part{row};
    part.row.time *= share;
    take_end(part);
    return part;
  }

  /// Computes the job of a row on so many steps.
  PartOfTraining part_of_steps(const SizeRow& row, double steps) const {
    PartOfTraining part{row};
    Node document = row.document;
    Node& training = *document.find("plan")->find("training");
    std::erase_if(training.fields, [](const auto& field) {
      const std::string& key = field.first;
      return key == "steps" || key == "tokens" || key == "epochs" || key == "samples" || key == "steps_per_epoch" ||
             key == "time";
    });
    set_field(document, "plan.training.steps", Node::scalar_node(fmt::format("{:.0f}", steps), training.place));
    question_.take_answer(std::move(document), part.row);
    take_end(part);
    return part;
  }

  /// Adds the fewest nodes with which two jobs end by the deadline, each with a part of the samples.
  void add_two_jobs(const SizeRow& own_row, const SizeCase& other, int most, int stated,
                    std::vector<SizeIsland>& rows) {
    const auto look = [&](int nodes, bool) {
      const SizeRow& bought = row_alone(other, nodes);
      if (!bought.good()) return NodesOutcome{};
      const double share = owned_part(own_row, bought);
      const PartOfTraining first = part_of(own_row, share), second = part_of(bought, 1 - share);
      return NodesOutcome{true, std::max(first.needed, second.needed) <= answer_.days, first.row.time};
    };
    const int nodes = find(other, first_guess(other, own_row), most, stated, look);
    if (nodes == 0) return;
    const SizeRow bought_row = row_alone(other, nodes);
    if (!bought_row.good()) return;
    const double own_batch = static_cast<double>(own_row.batch), samples = own_row.samples(),
                 own_steps = std::round(owned_part(own_row, bought_row) * own_row.steps),
                 steps = std::ceil((samples - own_steps * own_batch) / static_cast<double>(bought_row.batch));
    if (own_steps < 1 || steps < 1) return;
    const PartOfTraining first = part_of_steps(own_row, own_steps), second = part_of_steps(bought_row, steps);
    rows.push_back(two_jobs(first, second, own_steps * own_batch / samples));
  }
};

}  // namespace

void search_islands(SizeAnswer& answer, SizeQuestion& question, const std::vector<SizeCase>& cases,
                    const IslandSearches& searches) {
  const SizeOptions& options = question.options();
  const bool has_models = options.models.size() > 1;
  if (!options.purchase || !options.shard.is_whole() || has_models || cases.empty()) return;
  IslandSearch(answer, question, cases, searches).run();
}

}  // namespace trainyard
