#include "scenarios/src/sizing/size_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "scenarios/src/reading/read_network.hpp"
#include "scenarios/src/sizing/size_first.hpp"
#include "scenarios/src/sizing/size_gaps.hpp"
#include "scenarios/src/sizing/size_growth.hpp"
#include "scenarios/src/sizing/size_island_update.hpp"
#include "scenarios/src/sizing/size_islands.hpp"
#include "scenarios/src/sizing/size_networks.hpp"
#include "scenarios/src/sizing/size_payments.hpp"
#include "scenarios/src/sizing/size_rows.hpp"
#include "sim/process/job.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

class ClusterSizer {
 public:
  ClusterSizer(const Node& document, const std::string& name, const SizeOptions& options)
      : document_(document), name_(name), options_(options), question_(document_, name_, options_) {
    answer_.scenario = name;
    answer_.days = options.days;
    answer_.confidence = options.confidence;
    answer_.budget = options.budget;
    answer_.purchase = options.purchase;
    if (options.by_total) answer_.total_years = prices_.purchase.years;
    answer_.work = search_.work();
    answer_.search_seconds = options.search_seconds;
    check_networks(question_);
    if (const Node* prices = document_.find("prices"); prices && prices->kind != Node::Kind::null)
      answer_.currency = prices_.currency;
  }

  SizeAnswer make() {
    std::vector<SizeCase> cases;
    const std::vector<NodeType> types =
        sized_nodes(question_.catalog(), options_.node_types, prices_, options_.purchase, answer_.left_out);
    for (const std::string& model : models()) {
      const auto first = static_cast<std::ptrdiff_t>(cases.size());
      for (const NodeType& node : types) cases.push_back({model, node});
      if (types.size() == 1) continue;
      for (auto size_case = cases.begin() + first; size_case != cases.end(); ++size_case)
        size_case->rough_cost = rough_cost(*size_case);
      std::stable_sort(cases.begin() + first, cases.end(),
                       [](const SizeCase& a, const SizeCase& b) { return a.rough_cost < b.rough_cost; });
    }
    try {
      search_all(cases);
    } catch (const Interruption&) {
      const std::string place = begun_cases_ == 0 ? fmt::format("before the search of {} node types", cases.size())
                                                  : fmt::format("at node type {} of {}", begun_cases_, cases.size());
      answer_.unfinished = fmt::format("interrupted {}{}{}", place, search_.interrupted(),
                                       search_.bound_words("; by itself the search of each cluster ends "));
      if (first_.row() && !best_) answer_.unfinished += "; the cluster below has one simulated plan, none was searched";
      const auto begun = std::min(begun_cases_, first_.bounds().size());
      answer_.not_searched.assign(first_.bounds().begin() + static_cast<std::ptrdiff_t>(begun), first_.bounds().end());
    }
    if (first_.row()) keep_first_row(answer_, *first_.row());
    if (answer_.unfinished.empty() && options_.shard.is_whole()) next_sizes(cases);
    update_fewest();
    sort_stably(answer_.fewest, [&](const auto& a, const auto& b) { return case_of(a, cases) < case_of(b, cases); });
    judge_sizes(answer_, prices_);
    update_islands(answer_, question_);
    if (answer_.unfinished.empty() && options_.shard.is_whole() && !options_.networks.empty()) choose_network(cases);
    if (answer_.unfinished.empty() && options_.shard.is_whole()) compare_headroom(cases);
    add_growth(answer_);
    return std::move(answer_);
  }

 private:
  const Node document_;
  const std::string& name_;
  const SizeOptions& options_;
  SizeQuestion question_;
  const Prices& prices_ = question_.prices();
  SizeAnswer answer_;
  RowSearch search_{question_};
  std::size_t begun_cases_ = 0;
  std::optional<SizeRow> best_;  // best row so far
  FirstAnswer first_{question_, answer_};
  DeliveryPhases phases_{question_, searches(false)};

  std::vector<std::string> models() const {
    return options_.models.empty() ? std::vector<std::string>{""} : options_.models;
  }

  /// Returns the case of a cluster; its end: owned nodes of a type that the question does not name.
  auto case_of(const ClusterName& name, const std::vector<SizeCase>& cases) const {
    return std::ranges::find_if(cases, [&](const SizeCase& size_case) {
      return size_case.node.name == name.node && question_.model_of(size_case) == name.model;
    });
  }

  /// Searches the cases, the most promising first. If the question covers the whole catalog without a limit of its own,
  /// it stops before a node type once kClustersOfQuestion clusters were searched.
  void search_all(const std::vector<SizeCase>& cases) {
    std::vector<PromisingCase> promising;
    for (const SizeCase& size_case : cases)
      if (std::optional<PromisingCase> found = with_room(size_case)) promising.push_back(std::move(*found));
    first_.find(promising);
    const bool has_limit = options_.node_types.empty() && options_.work <= 0 && options_.search_seconds <= 0 &&
                           options_.gpus <= 0 && options_.shard.is_whole();
    for (const PromisingCase& next : promising) {
      if (!options_.shard.has(begun_cases_)) {
        ++begun_cases_;
        continue;
      }
      if (has_limit && answer_.rows.size() >= kClustersOfQuestion) {
        answer_.not_searched.push_back(next.bound);
        continue;
      }
      search_.place = fmt::format("{} of {}: ", ++begun_cases_, promising.size());
      evaluate(*next.size_case, next.limit);
    }
    search_.place = "beside owned nodes: ";
    search_islands(answer_, question_, cases, searches());
    improve_all(cases);
  }

  /// Searches with or without the phases of a delivery in batches.
  IslandSearches searches(bool grows = true) {
    return {[this](const SizeCase& size_case, int nodes) { return search_.has_plan(size_case, nodes); },
            [this, grows](const SizeCase& size_case, int nodes, double useful) {
              return grows ? row(size_case, {nodes, useful}) : search_.row(size_case, {nodes, useful});
            },
            [this](const SizeCase& size_case) { return improve_sizes(size_case); }};
  }

  /// Returns the case with the limit of the site. No value: the limit is unknown, and the node type is left out.
  std::optional<PromisingCase> with_room(const SizeCase& size_case) {
    PromisingCase found{&size_case, {}};
    try {
      const std::optional<Site> room = question_.site_for(size_case.node);
      found.limit = site_limit(room.value_or(question_.site()), size_case.node, question_.catalog());
      if (!room) {
        if (!found.limit) found.limit.emplace();
        found.limit->node = size_case.node.name;
        found.limit->nodes = 0;
        found.limit->shortage = "needs the room of nodes that are owned";
      }
    } catch (const UserError& e) {
      answer_.left_out.push_back(fmt::format("{} ({})", size_case.node.name, e.what()));
      return std::nullopt;
    }
    if (found.limit && std::ranges::none_of(answer_.site_limits,
                                            [&](const SiteLimit& other) { return other.node == found.limit->node; }))
      answer_.site_limits.push_back(*found.limit);
    return found;
  }

  /// Finds the fewest nodes that meet the deadline, and records the numbers evaluated on the way.
  void evaluate(const SizeCase& size_case, const std::optional<SiteLimit>& limit) {
    const int unit = std::max(1, options_.unit);
    const int room = limit ? std::min(limit->nodes, kMostSizedNodes) : kMostSizedNodes;
    if (options_.gpus > 0 || room < unit) {
      const int nodes = std::max(1, (options_.gpus + size_case.node.gpus - 1) / size_case.node.gpus);
      const int rounded_nodes = (nodes + unit - 1) / unit * unit;
      if (limit && rounded_nodes > limit->nodes)
        add(question_.refused_row(size_case, rounded_nodes, *limit));
      else
        add(row(size_case, {rounded_nodes}));
      improve_sizes(size_case);
      return;
    }
    NodeCounts counts{unit, room / unit * unit, [&](int nodes) { return search_.has_plan(size_case, nodes); }, {}};
    counts.look = [&](int nodes, bool late_is_enough) {
      const auto known_row = std::ranges::find_if(answer_.rows, [&](const SizeRow& r) {
        return r.model == question_.model_of(size_case) && r.node == size_case.node.name && r.nodes == nodes;
      });
      if (known_row != answer_.rows.end())
        return NodesOutcome{known_row->good(), are_enough(*known_row), known_row->time};
      const SizeRow row = this->row(size_case, {nodes, late_is_enough ? phases_.useful_days(size_case, nodes) : 0});
      add(row);
      return NodesOutcome{row.good(), are_enough(row), row.time};
    };
    // Nodes that are owned already need no delivery, so they may be in time if a few more are late.
    const int owned_nodes = options_.purchase ? prices_.purchase.number_owned(size_case.node.name) / unit * unit : 0;
    if (owned_nodes > 0 && owned_nodes <= room && search_.has_plan(size_case, owned_nodes))
      counts.look(owned_nodes, true);
    const int guess = std::min(phases_.first_guess(size_case), counts.most);
    FewestNodes fewest = find_fewest_nodes(guess, counts);
    while (improve_sizes(size_case)) fewest = find_fewest_nodes(guess, counts);
    const bool is_in_time = std::ranges::any_of(answer_.rows, [&](const SizeRow& row) {
      return row.model == question_.model_of(size_case) && row.node == size_case.node.name && row.beside.empty() &&
             row.nodes == fewest.in_time && in_time(row);
    });
    if (is_in_time && fewest.in_time > unit)
      answer_.fewest.push_back(
          {{question_.model_of(size_case), size_case.node.name, fewest.in_time}, unit, fewest.late});
  }

  void add(const SizeRow& row) {
    answer_.rows.push_back(row);
    if (options_.searched) options_.searched(answer_);
    if (!row.good() || (best_ && !is_better_row(answer_, row, *best_))) return;
    best_ = row;
    search_.best_words = fmt::format("best {}, {:.1f} days; ", nodes_in_words(row), row.days());
  }
  bool in_time(const SizeRow& row) const { return meets_deadline(answer_, row); }
  /// Returns true if so many nodes meet the deadline. Nodes that come after it count as if they were there at once.
  bool are_enough(const SizeRow& row) const {
    const std::optional<Payment> payment = best_payment(answer_, row);
    if (!payment) return false;
    const bool comes_too_late = !payment->grows && payment->wait >= answer_.days;
    return payment->needed_days() - (comes_too_late ? payment->wait : 0) <= answer_.days;
  }
  /// Returns the cost of the training at kFirstMfu, to compare node types: they are searched from the cheapest on.
  double rough_cost(const SizeCase& size_case) try {
    return question_.rough_hours(size_case) * compared_price(prices_, size_case.node, options_.purchase);
  } catch (const UserError&) {
    return HUGE_VAL;  // its search reports why
  }
  SizeRow row(const SizeCase& size_case, const RowRequest& request) {
    SizeRow row = search_.row(size_case, request);
    if (row.good()) take_phases(row, phases_.before(size_case, request.nodes));
    return row;
  }

  /// Tries plans of other sizes on the sizes of a case. Returns true if a late one is in time now.
  bool improve_sizes(const SizeCase& size_case) {
    bool is_enough = false;
    const ClusterName name = question_.name_of(size_case);
    for (SizeRow& row : answer_.rows) {
      if (!row.has_types_of(name) || !row.good()) continue;
      const bool is_late = !in_time(row);
      if (!search_.improve(size_case, row)) continue;
      take_phases(row, phases_.before(size_case, row.nodes));
      is_enough |= is_late && in_time(row);
    }
    return is_enough;
  }

  /// Tries plans of other sizes on all sizes, also beside owned nodes. Returns true if a late one is in time now.
  bool improve_all(const std::vector<SizeCase>& cases) {
    bool is_enough = false;
    for (const SizeCase& size_case : question_.all_cases(cases, answer_.rows)) is_enough |= improve_sizes(size_case);
    return is_enough;
  }

  /// Takes the sizes as the fewest that are in time only since their plans were improved.
  void update_fewest() {
    for (SizeFewest& fewest : answer_.fewest) {
      const int searched = fewest.nodes;
      for (const SizeRow& row : answer_.rows)
        if (row.has_types_of(fewest) && row.nodes < fewest.nodes && in_time(row)) fewest.nodes = row.nodes;
      if (fewest.nodes == searched) continue;
      fewest.late = 0;
      for (const SizeRow& row : answer_.rows)
        if (row.has_types_of(fewest) && !row.refused && row.nodes < fewest.nodes)
          fewest.late = std::max(fewest.late, row.nodes);
    }
  }

  void next_sizes(const std::vector<SizeCase>& cases) {
    search_.place = "next sizes: ";
    try {
      constexpr int most_rounds = 3;  // a smaller size that became the decision has other next sizes
      for (int round = 0; round < most_rounds; ++round) {
        search_next_sizes(answer_, question_, cases, searches());
        if (!improve_all(cases)) break;
      }
    } catch (const Interruption&) {
      answer_.unfinished = "interrupted during the search of the next sizes" + search_.interrupted();
    }
  }

  void choose_network(const std::vector<SizeCase>& cases) {
    const auto search_on = [&](const SizeRow& cluster, const std::string& fabric) -> std::optional<SizeRow> {
      const std::optional<SizeCase> found = question_.case_of(cluster, cases);
      if (!found) return std::nullopt;
      search_.place = "networks: ";
      return search_.row(*found, {cluster.nodes, 0, {}, cluster.batch, fabric});
    };
    try {
      SizeAnswer answer = answer_;
      compare_networks(answer, question_, search_on);
      if (!answer.counted_network.empty()) update_islands(answer, question_);
      answer_ = std::move(answer);
    } catch (const Interruption&) {
      answer_.unfinished = "interrupted during the comparison of networks";
      judge_sizes(answer_, prices_);  // the verdict says that it is one so far
    }
  }

  /// Evaluates a cluster without headroom: the cheapest, else the nearest, else the largest into which no plan fits.
  void compare_headroom(const std::vector<SizeCase>& cases) {
    const SizeRow* reference = answer_.cheapest ? &*answer_.cheapest : answer_.nearest ? &*answer_.nearest : nullptr;
    for (const SizeRow& row : answer_.rows)
      if (!answer_.cheapest && !answer_.nearest && row.too_large && (!reference || row.gpus > reference->gpus))
        reference = &row;
    if (!reference || reference->headroom <= 0 || !reference->beside.empty()) return;
    const auto found = case_of(*reference, cases);
    if (found == cases.end()) return;
    search_.place = "without headroom: ";
    try {
      SizeRow tight_row = row(*found, {reference->nodes, 0, 0.0, reference->batch});
      if (!reference->network.empty() && tight_row.good())
        tight_row = row_on_network(tight_row, reference->network, answer_, question_);
      if (const std::optional<Payment> payment = best_payment(answer_, tight_row))
        apply_payment(answer_, *payment, tight_row);
      if (tight_row.good() && (!reference->good() || tight_row.step_time < reference->step_time))
        answer_.without_headroom = std::move(tight_row);
    } catch (const Interruption&) {
      answer_.unfinished = "interrupted during the search without headroom" + search_.interrupted();
      judge_sizes(answer_, prices_);
    }
  }
};

}  // namespace

SizeAnswer size_clusters(const Node& document, const std::string& name, const SizeOptions& options) {
  // A faulty network is refused before the first answer, which could only say that no plan fits.
  if (const Node* model = document.find("model")) read_network_entry(model_document(*model, Catalog{}));
  return ClusterSizer(document, name, options).make();
}

}  // namespace trainyard
