// Owned nodes and bought ones of another type: alone, in one job, or with a job on each.
#include "scenarios/src/sizing/size_islands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "models/reading/document_text.hpp"
#include "scenarios/src/sizing/size_choices.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// Types of nodes to buy that are compared if the question names none: those that cost least alone.
constexpr std::size_t kIslandTypes = 3;
constexpr int kMostIslandNodes = 4096;

std::string percent_of(double share) { return fmt::format("{:.3g} %", share * 100); }

/// The training of a row on a part of its samples.
struct PartOfTraining {
  SizeRow row;
  double end = 0;     ///< days until it ends, including the delivery
  double needed = 0;  ///< the least deadline that it meets, with the requested probability, days
};

class IslandSearch {
 public:
  IslandSearch(SizeAnswer& answer, SizeQuestion& question, const std::vector<SizeCase>& cases,
               const IslandSearches& searches)
      : answer_(answer),
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
  SizeAnswer& answer_;
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

  /// Returns the cheapest size in time on these types of nodes, else the fastest one. Null: none was evaluated.
  const SizeRow* best_row(const std::string& node, const std::string& beside) const {
    const SizeRow* best = nullptr;
    const auto rank = [this](const SizeRow& row) {
      const bool in_time = row.good() && meets_deadline(answer_, row);
      return std::tuple(!row.good(), !in_time, in_time ? size_cost(answer_, row) : row.time);
    };
    for (const SizeRow& row : answer_.rows)
      if (row.node == node && row.beside == beside && (!best || rank(row) < rank(*best))) best = &row;
    return best;
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

  SizeIsland island(IslandKind kind, const SizeRow& row) const {
    SizeIsland all;
    all.kind = kind;
    if (kind != IslandKind::owned_alone) {
      all.node = row.node;
      all.nodes = row.nodes;
    }
    all.gpus = row.gpus;
    all.error = row.error;
    if (!row.good()) return all;
    all.plan = row.plan;
    all.step_time = row.step_time;
    all.samples_per_s = static_cast<double>(row.batch) / row.step_time;
    all.days = row.days();
    all.scenarios.push_back(yaml_text(row.document));
    const std::optional<Payment> payment = purchase_of(answer_, row);
    if (!payment) {
      all.error = "prices.purchase lacks one of its types of nodes";
      return all;
    }
    all.days = payment->end();
    all.cost = payment->cost;
    all.missed = missed_by(answer_, *payment);
    all.bought_nodes = bought_nodes_of(row);
    all.bought_gpus = all.bought_nodes * devices_of_node(row.node);
    return all;
  }

  int devices_of_node(const std::string& node) const {
    return read_node(question_.catalog().resolve("node", Node::scalar_node(node)), question_.catalog()).gpus;
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
    find(both, first_guess(other, own_row), most, stated,
         [&](int nodes, bool late_is_enough) { return tried(row_of_both(both, nodes, late_is_enough)); });
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

  static double samples_per_s(const SizeRow& row) { return static_cast<double>(row.batch) / row.step_time; }

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
    const NodeCounts counts{unit_, most, [&](int nodes) { return searches_.has_plan(size_case, nodes); }, look};
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

  void take_end(PartOfTraining& part) const {
    part.row.phases.clear();  // each of two jobs begins on all of its nodes
    const std::optional<Payment> payment = purchase_of(answer_, part.row);
    part.end = payment ? payment->end() : part.row.days();
    part.needed = payment ? payment->needed_days() : part.end;
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
    SizeIsland jobs = island(IslandKind::two_jobs, second.row);
    if (jobs.good()) {
      const double needed = std::max(first.needed, second.needed);
      jobs.gpus += own_row.gpus;
      jobs.owned_step_time = own_row.step_time;
      jobs.owned_share = own_steps * own_batch / samples;
      jobs.samples_per_s += samples_per_s(own_row);
      jobs.days = std::max(first.end, second.end);
      if (answer_.total_years > 0 && own_row.ownership) jobs.cost += own_row.ownership->total();
      const bool is_dear = answer_.budget > 0 && jobs.cost > answer_.budget;
      jobs.missed = needed <= answer_.days ? (is_dear ? "budget" : "") : is_dear ? "deadline and budget" : "deadline";
      jobs.scenarios.insert(jobs.scenarios.begin(), yaml_text(first.row.document));
    }
    rows.push_back(jobs);
  }
};

/// States the reason of a comparison of islands.
class IslandWords {
 public:
  IslandWords(const SizeAnswer& answer, const SizeIslands& islands) : answer_(answer), islands_(islands) {}

  std::string reason() const {
    const SizeIsland* best = nullptr;
    for (const SizeIsland& row : islands_.rows)
      if (row.kind != IslandKind::two_jobs && row.good() && row.missed.empty() && (!best || is_better(row, *best)))
        best = &row;
    std::vector<std::string> all{best ? winner(*best) : "No way to train one model on them meets all conditions"};
    for (const IslandKind kind :
         {IslandKind::owned_alone, IslandKind::more_owned, IslandKind::bought_alone, IslandKind::one_job})
      if (const SizeIsland* other = best_of(kind); other && (!best || best->kind != kind))
        all.push_back(compared(*other, best));
    const SizeIsland* one_job = best && best->kind == IslandKind::one_job ? best : best_of(IslandKind::one_job);
    if (one_job && one_job->of_two_jobs)
      all.push_back(fmt::format("in one job the nodes train on {:.4g} samples/s, {} {} than in a job on each type",
                                one_job->samples_per_s, percent_of(std::abs(*one_job->of_two_jobs - 1)),
                                *one_job->of_two_jobs < 1 ? "fewer" : "more"));
    if (const SizeIsland* jobs = best_of(IslandKind::two_jobs)) all.push_back(two_models(*jobs, best));
    return fmt::format("{}.", fmt::join(all, "; "));
  }

 private:
  const SizeAnswer& answer_;
  const SizeIslands& islands_;

  static bool is_better(const SizeIsland& a, const SizeIsland& b) {
    return std::pair(a.cost, a.days) < std::pair(b.cost, b.days);
  }

  /// Returns the best row of a way: one that meets all conditions, else the fastest. Null: the way has no training.
  const SizeIsland* best_of(IslandKind kind) const {
    const SizeIsland* best = nullptr;
    const auto rank = [](const SizeIsland& row) {
      const bool meets = row.missed.empty();
      return std::tuple(!meets, meets ? row.cost : row.days);
    };
    for (const SizeIsland& row : islands_.rows)
      if (row.kind == kind && row.good() && (!best || rank(row) < rank(*best))) best = &row;
    return best;
  }

  std::string bought_words(const SizeIsland& row) const { return fmt::format("{} x {}", row.bought_nodes, row.node); }
  std::string owned_words() const { return fmt::format("{} x {}", islands_.nodes, islands_.node); }
  int used_nodes(const SizeIsland& row) const { return static_cast<int>(row.gpus / (islands_.gpus / islands_.nodes)); }
  std::string money(double amount) const { return money_words(amount, answer_.currency); }

  std::string winner(const SizeIsland& row) const {
    if (row.kind == IslandKind::owned_alone)
      return fmt::format("{}the {} that are owned meet all conditions alone: {}, and nothing is bought",
                         used_nodes(row) < islands_.nodes ? fmt::format("{} of ", used_nodes(row)) : "", owned_words(),
                         days_words(row.days));
    if (row.kind == IslandKind::more_owned)
      return fmt::format("{} more beside the {} that are owned cost least for one model: {} and {}", bought_words(row),
                         owned_words(), money(row.cost), days_words(row.days));
    if (row.kind == IslandKind::bought_alone)
      return fmt::format("{} alone cost least for one model: {} and {}; the {} that are owned are left to other work",
                         bought_words(row), money(row.cost), days_words(row.days), owned_words());
    return fmt::format("one job on {} beside the {} that are owned costs least for one model: {} and {}",
                       bought_words(row), owned_words(), money(row.cost), days_words(row.days));
  }

  /// Says by how much a cost differs from that of the best way: ", 12 % more".
  std::string difference(double cost, const SizeIsland* best) const {
    if (!best) return "";
    if (best->cost <= 0 || cost == best->cost) return cost == best->cost ? ", equally much" : "";
    return fmt::format(", {} {}", percent_of(std::abs(cost / best->cost - 1)), cost > best->cost ? "more" : "less");
  }

  std::string compared(const SizeIsland& row, const SizeIsland* best) const {
    const std::string name = row.kind == IslandKind::owned_alone  ? "the owned nodes alone"
                             : row.kind == IslandKind::more_owned ? bought_words(row) + " more beside the owned ones"
                             : row.kind == IslandKind::bought_alone
                                 ? bought_words(row) + " alone"
                                 : "one job on " + bought_words(row) + " and the owned nodes";
    const std::string days = days_words(row.days);
    if (!row.missed.empty())
      return fmt::format("{} {} the {}: {}{}", name, row.kind == IslandKind::one_job ? "misses" : "miss", row.missed,
                         days, row.cost > 0 ? " and " + money(row.cost) : "");
    return fmt::format("{} {} {}{}, and {} {}", name, row.kind == IslandKind::one_job ? "costs" : "cost",
                       money(row.cost), difference(row.cost, best), row.kind == IslandKind::one_job ? "takes" : "take",
                       days);
  }

  std::string two_models(const SizeIsland& row, const SizeIsland* best) const {
    return fmt::format(
        "two jobs train two models, the owned nodes one on {} of the samples, {} the other: {}{} and {}{}",
        percent_of(row.owned_share), bought_words(row), money(row.cost), difference(row.cost, best),
        days_words(row.days), row.missed.empty() ? "" : ", which misses the " + row.missed);
  }
};

}  // namespace

const char* name_of(IslandKind kind) {
  constexpr const char* names[] = {"owned alone", "more of them", "bought alone", "one job", "two jobs"};
  return names[static_cast<std::size_t>(kind)];
}

void search_islands(SizeAnswer& answer, SizeQuestion& question, const std::vector<SizeCase>& cases,
                    const IslandSearches& searches) {
  const SizeOptions& options = question.options();
  const bool has_models = options.models.size() > 1;
  if (!options.purchase || !options.shard.is_whole() || has_models || cases.empty()) return;
  if (options.networks.empty()) return IslandSearch(answer, question, cases, searches).run();
  for (const auto& [name, count] : question.prices().purchase.owned_nodes)
    if (count > 0 && std::ranges::any_of(cases, [&name](const SizeCase& other) { return other.node.name != name; }))
      answer.left_out.push_back(fmt::format(
          "one job on {} x {}, which are owned, and bought nodes of another type (--network joins equal nodes)", count,
          name));
}

std::string island_reason(const SizeAnswer& answer, const SizeIslands& islands) {
  return IslandWords(answer, islands).reason();
}

const SizeIsland* best_shared_job(const SizeAnswer& answer) {
  const SizeIsland* best = nullptr;
  const auto rank = [](const SizeIsland& row) { return std::tuple(!row.missed.empty(), row.cost, row.days); };
  for (const SizeIslands& islands : answer.islands)
    for (const SizeIsland& row : islands.rows)
      if (row.kind == IslandKind::one_job && row.good() && (!best || rank(row) < rank(*best))) best = &row;
  return best;
}

}  // namespace trainyard
