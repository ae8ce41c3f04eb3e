#include "scenarios/src/sizing/size_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "scenarios/src/reading/read_network.hpp"
#include "scenarios/src/search/legal_batches.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/sizing/size_first.hpp"
#include "scenarios/src/sizing/size_gaps.hpp"
#include "scenarios/src/sizing/size_growth.hpp"
#include "scenarios/src/sizing/size_islands.hpp"
#include "scenarios/src/sizing/size_networks.hpp"
#include "scenarios/src/sizing/size_payments.hpp"
#include "scenarios/src/sizing/size_training.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"
#include "sim/process/job.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// Number of batches that are compared if the batch may differ, and their share of the search's limit.
constexpr std::size_t kComparedBatches = 8;
constexpr double kShareOfBatches = 0.5;

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
    answer_.work = work();
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
      answer_.unfinished = fmt::format("interrupted {}{}{}", place, interrupted_search_,
                                       bound_words("; by itself the search of each cluster ends "));
      if (first_.row() && !best_) answer_.unfinished += "; the cluster below has one simulated plan, none was searched";
      const auto begun = std::min(begun_cases_, first_.bounds().size());
      answer_.not_searched.assign(first_.bounds().begin() + static_cast<std::ptrdiff_t>(begun), first_.bounds().end());
    }
    if (first_.row()) keep_first_row(answer_, *first_.row());
    if (answer_.unfinished.empty() && options_.shard.is_whole()) next_sizes(cases);
    const auto place_of = [&](const auto& x) {
      return std::ranges::find_if(cases, [&](const SizeCase& size_case) {
        return size_case.node.name == x.node && question_.model_of(size_case) == x.model;
      });
    };
    sort_stably(answer_.fewest, [&](const auto& a, const auto& b) { return place_of(a) < place_of(b); });
    judge_sizes(answer_, prices_);
    for (SizeIslands& islands : answer_.islands) islands.reason = island_reason(answer_, islands);
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
  std::string current_case_;        // text for progress lines
  std::string interrupted_search_;  // text: the place where a signal ended a search, and the best plan of that search
  std::size_t begun_cases_ = 0;
  std::optional<SizeRow> best_;  // best row so far
  FirstAnswer first_{question_, answer_};
  std::int64_t own_batch_ = 0;  // the scenario's batch
  DeliveryPhases phases_{question_, searches(false)};
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::vector<std::string> models() const {
    return options_.models.empty() ? std::vector<std::string>{""} : options_.models;
  }

  /// Searches the cases, the most promising first. If the question covers the whole catalog without a limit of its own,
  /// it stops before a node type once kClustersOfQuestion clusters were searched.
  void search_all(const std::vector<SizeCase>& cases) {
    std::vector<PromisingCase> promising;
    for (const SizeCase& size_case : cases)
      if (std::optional<PromisingCase> found = with_room(size_case)) promising.push_back(std::move(*found));
    if (promising.size() > 1) first_.find(promising);
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
      current_case_ = fmt::format("{} of {}: ", ++begun_cases_, promising.size());
      evaluate(*next.size_case, next.limit);
    }
    current_case_ = "beside owned nodes: ";
    search_islands(answer_, question_, cases, searches());
  }

  /// Searches with or without the phases of a delivery in batches.
  IslandSearches searches(bool grows = true) {
    return {[this](const SizeCase& size_case, int nodes) { return has_plan(size_case, nodes); },
            [this, grows](const SizeCase& size_case, int nodes, double useful) {
              return grows ? row(size_case, {nodes, useful}) : searched_row(size_case, {nodes, useful});
            }};
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
    if (found.limit && std::ranges::none_of(answer_.site_limits, [&](const SizeSiteLimit& other) {
          return other.node == found.limit->node;
        }))
      answer_.site_limits.push_back(*found.limit);
    return found;
  }

  /// Finds the fewest nodes that meet the deadline, and records the numbers evaluated on the way.
  void evaluate(const SizeCase& size_case, const std::optional<SizeSiteLimit>& limit) {
    const int unit = std::max(1, options_.unit);
    const int room = limit ? std::min(limit->nodes, kMostSizedNodes) : kMostSizedNodes;
    if (options_.gpus > 0 || room < unit) {
      const int nodes = std::max(1, (options_.gpus + size_case.node.gpus - 1) / size_case.node.gpus);
      const int rounded_nodes = (nodes + unit - 1) / unit * unit;
      if (limit && rounded_nodes > limit->nodes)
        add(question_.refused_row(size_case, rounded_nodes, *limit));
      else
        add(row(size_case, {rounded_nodes}));
      return;
    }
    NodeCounts counts{unit, room / unit * unit, [&](int nodes) { return has_plan(size_case, nodes); }, {}};
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
    if (owned_nodes > 0 && owned_nodes <= room && has_plan(size_case, owned_nodes)) counts.look(owned_nodes, true);
    const FewestNodes fewest = find_fewest_nodes(std::min(phases_.first_guess(size_case), counts.most), counts);
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
  }
  /// Returns true if some allowed batch divides among the replicas of some split.
  bool has_plan(const SizeCase& size_case, int nodes) const {
    end_if_interrupted();
    try {
      return !batches_on(read_plan_question(question_.scenario(size_case, nodes, true), name_)).empty();
    } catch (const UserError&) {
      return false;
    }
  }
  /// Lists batches that have plans: the scenario's, and those within the tolerance that may be better.
  std::vector<std::int64_t> batches_on(const PlanQuestion& question) const {
    const std::int64_t batch = question.base.global_batch_size;
    const auto tolerance = static_cast<std::int64_t>(static_cast<double>(batch) * options_.batch_tolerance);
    return legal_splits(question, sized_space(question, document_))
        .promising_batches(batch, batch - tolerance, batch + tolerance, kComparedBatches);
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
  /// Returns the limit of work of a search, operations. 0: there is no limit.
  double work() const {
    if (options_.search_seconds > 0) return 0;
    return options_.work > 0 ? options_.work : kWorkOfCluster;
  }

  /// Describes when the search of a cluster ends: "after 50 M operations: --work"; "" with a limit of wall time.
  std::string bound_words(const char* before, const char* behind = "") const {
    return work() > 0 ? fmt::format("{}after {:.3g} M operations: --work{}", before, work() * 1e-6, behind) : "";
  }
  std::string best_words() const {
    return best_ ? fmt::format("best {}, {:.1f} days; ", nodes_in_words(*best_), best_->days()) : "";
  }

  SizeRow row(const SizeCase& size_case, const RowRequest& request) {
    SizeRow row = searched_row(size_case, request);
    if (row.good()) take_phases(row, phases_.before(size_case, request.nodes));
    return row;
  }

  SizeRow searched_row(const SizeCase& size_case, const RowRequest& request) {
    SizeRow row = question_.empty_row(size_case, request.nodes);
    try {
      PlanQuestion question = plans_of(size_case, request);
      row.batch = own_batch_ = question.base.global_batch_size;
      const std::string key = answer_key(
          answer_key(question.base) +
              fmt::format(" {} {} {} {} {} {} {}", options_.search_seconds, work(), options_.tokens_per_parameter,
                          request.useful, request.headroom.value_or(options_.headroom.value_or(-1)),
                          options_.batch_tolerance, request.batch) +
              request.fabric,
          document_);
      {
        const Journal journal(options_.journal);
        if (const std::optional<std::string> line = journal.find(key)) return size_row_from_text(*line);
      }
      double share = 1;
      if (request.batch > 0)
        take_batch(size_case, request, request.batch, question, row);
      else if (options_.batch_tolerance > 0)
        share -= choose_batch(size_case, request, question, row);
      search(question, row, request, share);
      Journal(options_.journal).add(key, to_text(row));
    } catch (const UserError& e) {
      row.error = e.what();
      row.refused = true;
    }
    return row;
  }

  /// Reads the question for a plan on the nodes of a request, with its fabric between them.
  PlanQuestion plans_of(const SizeCase& size_case, const RowRequest& request, Overrides overrides = {}) const {
    if (!request.fabric.empty()) overrides.emplace_back("cluster.fabric", request.fabric);
    return read_plan_question(question_.scenario(size_case, request.nodes, true), name_, overrides);
  }

  void take_batch(const SizeCase& size_case, const RowRequest& request, std::int64_t batch, PlanQuestion& question,
                  SizeRow& row) const {
    if (batch == row.batch) return;
    row.batch = batch;
    question = plans_of(size_case, request, {{"plan.global_batch_size", fmt::format("{}", batch)}});
  }

  /// Searches a plan for each batch within the tolerance and chooses the batch of the least time per sample. Returns
  /// the share of the wall time that these searches took. A limit of work applies to the following search in full.
  double choose_batch(const SizeCase& size_case, const RowRequest& request, PlanQuestion& question, SizeRow& row) {
    const std::vector<std::int64_t> batches = batches_on(question);
    if (batches.empty()) return 0;  // the search reports why
    std::int64_t best = batches.front();
    double least = 0;
    const double batch_share = kShareOfBatches / static_cast<double>(batches.size());
    for (const std::int64_t batch : batches) {
      if (batches.size() == 1) break;
      take_batch(size_case, request, batch, question, row);
      const PlanAnswer answer = answer_plan(question, plan_options(question, row, batch_share, batch_share));
      if (is_interrupted()) stop(row, answer);
      if (answer.best.empty()) continue;
      row.batches.push_back(batch);
      const double time = answer.best.front().outcome.step_time / static_cast<double>(batch);
      if (row.batches.size() > 1 && time >= least) continue;
      least = time;
      best = batch;
    }
    take_batch(size_case, request, best, question, row);
    return batches.size() == 1 ? 0 : kShareOfBatches;
  }

  /// Returns the options of a plan search. It may use `time_share` of the limit of wall time, and `work_share` of the
  /// limit of work.
  PlanAnswerOptions plan_options(const PlanQuestion& question, const SizeRow& row, double time_share,
                                 double work_share) {
    PlanAnswerOptions options;
    options.neighbours = options.rule = options.without_headroom = false;
    options.headroom = options_.headroom;
    options.journal = options_.journal;
    options.seconds = options_.search_seconds * time_share;
    options.search.work = work() * work_share;
    const std::string cluster_text =
        fmt::format("{}{}{}", current_case_, nodes_in_words(row), bound_words(" (ends ", ")"));
    if (options_.progress)
      options.search.progress = [this, cluster_text](const std::string& text) {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
        options_.progress(fmt::format("{}{}, {} ({:.0f} s)", best_words(), cluster_text, text, passed.count()));
      };
    options.space = sized_space(question, document_);
    return options;
  }

  /// Ends the answer after a signal. Only a text mentions the best plan of the interrupted search.
  [[noreturn]] void stop(const SizeRow& row, const PlanAnswer& answer) {
    interrupted_search_ = fmt::format(", on {} node{}", row.nodes, row.nodes == 1 ? "" : "s");
    if (!answer.best.empty())
      interrupted_search_ += fmt::format(", where the best plan so far takes {:.4g} s a step: {}, batch {}",
                                         answer.best.front().outcome.step_time, answer.best.front().plan, row.batch);
    throw Interruption();
  }

  /// Searches the best plan and computes the whole training with it.
  void search(const PlanQuestion& question, SizeRow& row, const RowRequest& request, double share) {
    PlanAnswerOptions options = plan_options(question, row, share, 1);
    if (request.headroom) options.headroom = request.headroom;
    const double steps = question_.steps_of(question.base);
    if (request.useful > 0) options.search.useful = request.useful * kSecondsOfDay / steps;
    const PlanAnswer answer = answer_plan(question, options);
    if (is_interrupted()) stop(row, answer);
    if (answer.search.useless_from > 0) {
      row.error =
          fmt::format("no plan takes less than {:.1f} days", answer.search.useless_from * steps / kSecondsOfDay);
      return;
    }
    row.headroom = answer.headroom;
    if (answer.best.empty()) {
      row.too_large = answer.search.ended == SearchEnd::proved;
      row.error =
          row.too_large ? "no plan fits into " + usable_memory(answer.capacity, answer.headroom)
          : answer.search.ended == SearchEnd::time
              ? fmt::format("no plan that fits was found in {:.4g} s (--search)", options.seconds)
              : fmt::format("no plan that fits was found in {:.3g} M operations (--work)", answer.search.work * 1e-6);
      return;
    }
    row.plan = answer.best.front().plan;
    row.peak = answer.best.front().outcome.peak;
    row.memory_interval = answer.best.front().outcome.memory_interval;
    row.risk = answer.best.front().outcome.risk;
    row.proved = answer.search.proved;
    question_.take_training(answer.document, own_batch_, row);
  }

  void next_sizes(const std::vector<SizeCase>& cases) {
    current_case_ = "next sizes: ";
    try {
      search_next_sizes(answer_, question_, cases, searches());
    } catch (const Interruption&) {
      answer_.unfinished = "interrupted during the search of the next sizes" + interrupted_search_;
    }
  }

  void choose_network(const std::vector<SizeCase>& cases) {
    const auto search_on = [&](const SizeRow& cluster, const std::string& fabric) -> std::optional<SizeRow> {
      const auto found = std::ranges::find_if(cases, [&](const SizeCase& size_case) {
        return size_case.node.name == cluster.node && question_.model_of(size_case) == cluster.model;
      });
      if (found == cases.end() || !cluster.beside.empty()) return std::nullopt;
      current_case_ = "networks: ";
      return searched_row(*found, {cluster.nodes, 0, {}, cluster.batch, fabric});
    };
    try {
      SizeAnswer answer = answer_;
      compare_networks(answer, question_, search_on);
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
    const auto found = std::ranges::find_if(cases, [&](const SizeCase& size_case) {
      return size_case.node.name == reference->node && question_.model_of(size_case) == reference->model;
    });
    if (found == cases.end()) return;  // owned nodes of a type that the question does not name
    current_case_ = "without headroom: ";
    try {
      SizeRow tight_row = row(*found, {reference->nodes, 0, 0.0, reference->batch});
      if (!reference->network.empty() && tight_row.good())
        tight_row = row_on_network(tight_row, reference->network, answer_, question_);
      if (const std::optional<Payment> payment = best_payment(answer_, tight_row))
        apply_payment(answer_, *payment, tight_row);
      if (tight_row.good() && (!reference->good() || tight_row.step_time < reference->step_time))
        answer_.without_headroom = std::move(tight_row);
    } catch (const Interruption&) {
      answer_.unfinished = "interrupted during the search without headroom" + interrupted_search_;
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
