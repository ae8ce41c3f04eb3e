#include "scenarios/search/size_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

#include "models/hardware/node.hpp"
#include "scenarios/reading/framework_modes.hpp"
#include "scenarios/search/legal_batches.hpp"
#include "scenarios/search/plan_answer.hpp"
#include "scenarios/search/size_on_tpus.hpp"
#include "scenarios/studies/failures/failure_study.hpp"
#include "scenarios/studies/sweeps/answer_key.hpp"
#include "sim/process/child.hpp"

namespace trainyard {
namespace {

constexpr int kMostSizedNodes = 4096;
/// Of the dense peak, with which the search for a number of nodes begins: what large runs reach (validate published).
constexpr double kFirstMfu = 0.4;
/// More nodes that save less than this of the time do not help any more.
constexpr double kStillHelps = 0.03;
/// Between a number of nodes and twice as many, so many steps, where no unit is given.
constexpr int kStepsOfDoubling = 8;
constexpr double kDay = 86400, kHour = 3600;

/// One model on one type of node.
struct SizeCase {
  std::string model;  ///< "": the scenario's own
  NodeType node;
};

Node text_node(const std::string& text) { return Node::of_text(text, Place::of("size")); }

class ClusterSizer {
 public:
  ClusterSizer(const Node& document, const std::string& name, const SizeOptions& options)
      : document_(document), name_(name), options_(options) {
    answer_.scenario = name;
    answer_.days = options.days;
    answer_.budget = options.budget;
    answer_.work = work();
    answer_.search_seconds = options.search_seconds;
    check();
  }

  SizeAnswer make() {
    std::vector<SizeCase> cases;
    const std::vector<NodeType> types = nodes();
    for (const std::string& model : models())
      for (const NodeType& node : types) cases.push_back({model, node});
    for (const SizeCase& each : cases) {
      if (!options_.shard.has(begun_++)) continue;
      at_ = fmt::format("{} of {}: ", begun_, cases.size());
      try {
        look_at(each);
      } catch (const Interrupted&) {
        answer_.unfinished = fmt::format("interrupted at type of node {} of {}", begun_, cases.size());
        break;
      }
    }
    judge();
    return std::move(answer_);
  }

 private:
  const Node document_;
  const std::string& name_;
  const SizeOptions& options_;
  const Catalog catalog_;
  Prices prices_;
  SizeAnswer answer_;
  std::string at_;
  std::size_t begun_ = 0;
  std::optional<SizeRow> best_;  // up to now
  std::int64_t own_batch_ = 0;   // of the scenario
  double training_tokens_ = 0;   // of the model that is looked at, where its deadline counts
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  void check() {
    const Node* plan = document_.find("plan");
    const Node* training = plan ? plan->find("training") : nullptr;
    if (!training && options_.tokens_per_parameter <= 0)
      fail(document_.place, "size: how long is the training? plan.training, or --tokens, expected");
    if (const Node* prices = document_.find("prices"); prices && prices->kind != Node::Kind::null) {
      prices_ = read_prices(catalog_.resolve("price", *prices));
      answer_.currency = prices_.currency;
    }
    if (options_.budget > 0 && !prices_.given())
      throw UserError(
          "--budget: of what prices? --prices FILE, or prices in the scenario (scenarios/prices-example.yml "
          "shows how)");
  }

  std::vector<std::string> models() const {
    return options_.models.empty() ? std::vector<std::string>{""} : options_.models;
  }

  /// A type of node, or all that have such a chip.
  std::vector<std::string> nodes_called(const std::string& name) const {
    const std::vector<std::string> nodes = catalog_.names("node"), chips = catalog_.names("gpu");
    const auto has = [&name](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (has(nodes) || !has(chips)) return {name};
    std::vector<std::string> all;
    for (const std::string& node : nodes)
      if (read_node(catalog_.resolve("node", text_node(node)), catalog_).gpu.name == name) all.push_back(node);
    if (all.empty()) throw UserError(fmt::format("size: no node of the catalog has the chip {}", name));
    return all;
  }
  std::vector<std::string> node_names() const {
    if (options_.node_types.empty()) return catalog_.names("node");
    std::vector<std::string> all;
    for (const std::string& name : options_.node_types)
      for (const std::string& node : nodes_called(name))
        if (std::find(all.begin(), all.end(), node) == all.end()) all.push_back(node);
    return all;
  }

  /// Those that are asked for; else all of the catalog that multiply in bf16, can be joined, and are priced.
  std::vector<NodeType> nodes() {
    std::vector<NodeType> all;
    const bool chosen = !options_.node_types.empty();
    for (const std::string& name : node_names()) {
      const NodeType node = read_node(catalog_.resolve("node", text_node(name)), catalog_);
      std::string why;
      if (node.gpu.peak[static_cast<std::size_t>(Precision::bf16)].value <= 0) why = "no bf16";
      if (node.hcas == 0 && node.fabric.empty()) why = "no adapter";
      if (!chosen && node.gpu.memory_capacity < Bytes{32e9}) why = "less than 32 GB a GPU";
      if (!chosen && is_tpu(node) && !prices_.given()) why = "TPU: looked at where it is named or priced";
      if (prices_.given()) try {
          prices_.gpu_hour(node.name, node.gpu.name, node.gpus);
        } catch (const UserError&) {
          if (chosen) throw;
          why = "no price";
        }
      if (chosen && !why.empty()) throw UserError(fmt::format("size: {}: {}", name, why));
      if (why.empty())
        all.push_back(node);
      else if (why == "no price" || is_tpu(node))
        answer_.left_out.push_back(fmt::format("{} ({})", name, why));
    }
    if (all.empty()) throw UserError("size: no type of node is left; --prices prices none that trains in bf16");
    return all;
  }

  /// Numbers of nodes around the least that meets the deadline: powers of two, and what lies between the last two of them.
  void look_at(const SizeCase& of) {
    if (options_.gpus > 0) {
      add(row(of, (options_.gpus + of.node.gpus - 1) / of.node.gpus));
      return;
    }
    int nodes = first_guess(of);
    SizeRow last = row(of, nodes);
    // The batch may not divide among so many: the most that it does is the nearest to the deadline.
    const bool too_many = last.refused;
    while (last.refused && nodes > 1) last = row(of, nodes /= 2);
    add(last);
    if (in_time(last)) {
      while (in_time(last) && nodes > 1) add(last = row(of, nodes /= 2, options_.days));
      if (!in_time(last)) look_between(of, last, nodes);
      return;
    }
    if (last.refused) return;
    while (!too_many && nodes < kMostSizedNodes) {
      const SizeRow next = row(of, 2 * nodes);
      if (!next.refused) add(next);
      if (next.refused || in_time(next)) break;
      if (last.good() && (!next.good() || next.time >= last.time * (1 - kStillHelps))) return;
      last = next;
      nodes *= 2;
    }
    look_between(of, last, nodes);
  }

  /// Multiples of a unit between a number of nodes that is late and twice as many, the fewest first, until one is in
  /// time. What would have to scale better than ideally is left out.
  void look_between(const SizeCase& of, const SizeRow& late, int nodes) {
    const int unit = options_.unit > 0 ? options_.unit : std::max(1, nodes / kStepsOfDoubling);
    const double least = late.good() ? nodes * late.days() / options_.days : nodes;
    for (int between = (nodes / unit + 1) * unit; between < std::min(2 * nodes, kMostSizedNodes + 1); between += unit) {
      if (between < least || !has_plan(of, between)) continue;
      const SizeRow row = this->row(of, between, options_.days);
      add(row);
      if (in_time(row)) return;
    }
  }

  void add(const SizeRow& row) {
    answer_.rows.push_back(row);
    if (!row.good() || (best_ && !is_better(row, *best_))) return;
    best_ = row;
  }
  /// Of those in time the cheaper one; else the one that is nearer.
  bool is_better(const SizeRow& a, const SizeRow& b) const {
    if (in_time(a) != in_time(b)) return in_time(a);
    return in_time(a) ? cost(a) < cost(b) : a.time < b.time;
  }

  /// The batch divides among the replicas of some split.
  bool has_plan(const SizeCase& of, int nodes) const {
    try {
      const PlanQuestion question = read_plan_question(scenario(of, nodes, true), name_);
      return batch_on(question) > 0;
    } catch (const UserError&) {
      return false;
    }
  }
  /// That a plan has there: within the tolerance the one with most plans; 0: none.
  std::int64_t batch_on(const PlanQuestion& question) const {
    const std::int64_t batch = question.base.global_batch_size;
    const auto away = static_cast<std::int64_t>(static_cast<double>(batch) * options_.batch_tolerance);
    return legal_splits(question, {}).best_batch(batch, batch - away, batch + away);
  }

  bool in_time(const SizeRow& row) const { return row.good() && row.days() <= options_.days; }

  /// The power of two that meets the deadline at the utilization of large runs.
  int first_guess(const SizeCase& of) {
    const Scenario s = read_scenario(scenario(of, 1, false), name_);
    const double tokens = training_tokens_ = tokens_of(s);
    const double peak = of.node.gpu.peak[static_cast<std::size_t>(Precision::bf16)].value * of.node.gpus;
    const double needed = s.network.model_flops_per_token().value * tokens / (peak * kFirstMfu * options_.days * kDay);
    int nodes = 1;
    while (nodes < needed && nodes < kMostSizedNodes) nodes *= 2;
    return nodes;
  }

  /// Of the whole training.
  double steps_of(const Scenario& s) const {
    return training_tokens_ /
           (static_cast<double>(s.global_batch_size) * static_cast<double>(s.network.tokens_per_sample));
  }

  double tokens_of(const Scenario& s) const {
    if (options_.tokens_per_parameter > 0) return options_.tokens_per_parameter * s.network.parameters();
    return s.training.steps * static_cast<double>(s.global_batch_size) *
           static_cast<double>(s.network.tokens_per_sample);
  }

  /// On so many nodes; to search for plans without what follows from a step: failures, the training's length. With one
  /// node the plan is the least that can be read.
  Node scenario(const SizeCase& of, int nodes, bool searched) const {
    Node document = document_;
    Node& plan = *document.find("plan");
    if (!of.model.empty()) set_field(document, "model", text_node(of.model));
    Node cluster = Node::empty_map(document.place);
    const Node* own = document.find("cluster");
    const Node* fabric = own ? own->find("fabric") : nullptr;
    cluster.fields.emplace_back("node", text_node(of.node.name));
    cluster.fields.emplace_back("nodes", text_node(fmt::format("{}", nodes)));
    if (nodes > 1 && of.node.fabric.empty())
      cluster.fields.emplace_back("fabric", fabric ? *fabric : text_node("nonblocking"));
    set_field(document, "cluster", std::move(cluster));
    if (is_tpu(of.node)) put_on_tpus(document);
    std::erase_if(document.fields, [](const auto& field) { return field.first == "faults"; });
    if (searched) std::erase_if(plan.fields, [](const auto& field) { return field.first == "training"; });
    if (searched) return document;
    plan = without_choices(plan);
    std::erase_if(plan.fields,
                  [](const auto& field) { return field.first == "pipeline" || field.first == "strategy"; });
    set_field(plan, "micro_batch_size", text_node("1"));
    set_field(plan, "data_parallel", Node::empty_map(plan.place));
    set_field(plan, "data_parallel.size", text_node("1"));
    set_field(plan, "idle_devices", text_node("allowed"));
    return document;
  }

  /// 0: no limit.
  double work() const {
    if (options_.search_seconds > 0) return 0;
    return options_.work > 0 ? options_.work : kWorkOfCluster;
  }

  static bool is_tpu(const NodeType& node) { return node.gpu.kind == ChipKind::tpu; }

  /// `useful`: days; no longer training is looked for. 0: any.
  SizeRow row(const SizeCase& of, int nodes, double useful = 0) {
    SizeRow row;
    const Node* model = document_.find("model");
    row.model = !of.model.empty() ? of.model : model && !model->scalar.empty() ? model->scalar : name_;
    row.node = of.node.name;
    row.nodes = nodes;
    row.gpus = nodes * of.node.gpus;
    try {
      PlanQuestion question = read_plan_question(scenario(of, nodes, true), name_);
      row.batch = own_batch_ = question.base.global_batch_size;
      if (options_.batch_tolerance > 0) take_near_batch(of, question, row);
      const std::string key =
          answer_key(answer_key(question.base) + fmt::format(" {} {} {} {} {}", options_.search_seconds, work(),
                                                             options_.tokens_per_parameter, useful,
                                                             options_.headroom.value_or(-1)),
                     document_);
      {
        const Journal journal(options_.journal);
        if (const std::optional<std::string> line = journal.find(key)) return size_row_from_text(*line);
      }
      search(question, row, useful);
      Journal(options_.journal).add(key, to_text(row));
    } catch (const UserError& e) {
      row.error = e.what();
      row.refused = true;
    }
    return row;
  }

  /// The batch with most plans there, where that is another one than the scenario's.
  void take_near_batch(const SizeCase& of, PlanQuestion& question, SizeRow& row) const {
    const std::int64_t batch = batch_on(question);
    if (batch == 0 || batch == row.batch) return;
    row.batch = batch;
    question = read_plan_question(scenario(of, row.nodes, true), name_,
                                  {{"plan.global_batch_size", fmt::format("{}", batch)}});
  }

  /// The best plan, and with it the whole training.
  void search(const PlanQuestion& question, SizeRow& row, double useful) {
    PlanAnswerOptions options;
    options.neighbours = options.rule = options.without_headroom = false;
    options.headroom = options_.headroom;
    options.journal = options_.journal;
    options.seconds = options_.search_seconds;
    options.search.work = work();
    const double steps = steps_of(question.base);
    if (useful > 0) options.search.useful = useful * kDay / steps;
    options.search.progress = [&](const std::string& text) {
      if (!options_.progress) return;
      const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
      const std::string best =
          best_ ? fmt::format("best {} x {}, {:.1f} days; ", best_->nodes, best_->node, best_->days()) : "";
      options_.progress(fmt::format("{}{}{} x {}, {} ({:.0f} s)", best, at_, row.nodes, row.node, text, passed));
    };
    if (!question.own && document_.find("plan")->find("pipeline") == nullptr) {
      std::vector<std::string> schedules = schedules_of_mode(question.base.strategy);
      std::erase_if(schedules, [](const std::string& name) { return name != "1f1b" && name != "interleaved-1f1b"; });
      if (!schedules.empty()) options.space.vary.push_back({"plan.pipeline.schedule", schedules});
    }
    // Pods are trained without pipelines (Chowdhery et al. 2022, PaLM, section 4).
    if (is_tpu(question.base.cluster.node) && document_.find("plan")->find("pipeline") == nullptr)
      options.space.vary.push_back({"plan.pipeline_parallel", {"1"}});
    const PlanAnswer answer = answer_plan(question, options);
    if (interrupted()) throw Interrupted();
    if (answer.search.useless_from > 0) {
      row.error = fmt::format("no plan takes less than {:.1f} days", answer.search.useless_from * steps / kDay);
      return;
    }
    row.headroom = answer.headroom;
    if (answer.best.empty()) {
      row.too_large = answer.search.ended == SearchEnd::proved;
      row.error = row.too_large
                      ? "no plan fits into " + usable_memory(answer.capacity, answer.headroom)
                      : fmt::format("no plan that fits was found in {:.4g} s (--search)", options_.search_seconds);
      return;
    }
    row.plan = answer.best.front().plan;
    row.peak = answer.best.front().outcome.peak;
    row.proved = answer.search.proved;
    take_training(answer.document, row);
  }

  void take_training(Node document, SizeRow& row) {
    const Scenario step = read_scenario(document, name_);
    const double tokens_a_step =
        static_cast<double>(step.global_batch_size) * static_cast<double>(step.network.tokens_per_sample);
    if (options_.tokens_per_parameter > 0) {
      Node training = Node::empty_map(document.place);
      training.fields.emplace_back("tokens", text_node(fmt::format("{:.0f}", tokens_of(step))));
      set_field(document, "plan.training", std::move(training));
    } else {
      set_field(document, "plan.training", *document_.find("plan")->find("training"));
      if (row.batch != own_batch_) keep_samples(*document.find("plan")->find("training"), row.batch);
    }
    if (const Node* faults = document_.find("faults")) document.fields.emplace_back("faults", *faults);
    if (Node* faults = document.find("faults"); faults && is_tpu(step.cluster.node))
      tell_checkpoint_times(*faults, step);
    const Scenario s = read_scenario(document, name_);
    SimulateOptions options;
    options.critical_path = false;
    const Result r = simulate_training(s, options);
    row.document = std::move(document);
    row.parameters = s.network.parameters();
    row.tokens = r.training_steps * tokens_a_step;
    row.step_time = r.step_time;
    row.time = r.whole_time();
    row.mfu = r.mfu;
    row.goodput = r.failures ? r.failures->goodput : 1;
    row.gpu_hours = row.time / kHour * row.gpus;
    row.energy = r.training_energy();
    row.money = r.money ? r.money->training : 0;
  }

  /// Where it counts steps: as many as have the same samples of another batch.
  void keep_samples(Node& training, std::int64_t batch) const {
    for (const char* key : {"steps", "steps_per_epoch"})
      if (Node* steps = training.find(key))
        steps->scalar = fmt::format("{:.0f}", std::ceil(parse_number(steps->scalar) * static_cast<double>(own_batch_) /
                                                        static_cast<double>(batch)));
  }

  double cost(const SizeRow& row) const { return prices_.given() ? row.money : row.gpu_hours; }

  void judge() {
    std::vector<SizeRow>& rows = answer_.rows;
    std::stable_sort(rows.begin(), rows.end(), [](const SizeRow& a, const SizeRow& b) {
      return std::tie(a.model, a.node, a.nodes) < std::tie(b.model, b.node, b.nodes);
    });
    for (SizeRow& row : rows) {
      if (!row.good()) continue;
      row.meets = row.days() <= options_.days && (options_.budget <= 0 || row.money <= options_.budget);
      row.pareto = std::none_of(rows.begin(), rows.end(), [&](const SizeRow& other) {
        return other.good() && other.model == row.model && other.time <= row.time && cost(other) <= cost(row) &&
               (other.time < row.time || cost(other) < cost(row));
      });
    }
    const auto least = [&rows](auto counts, auto key) {
      std::optional<SizeRow> best;
      for (const SizeRow& row : rows)
        if (row.good() && counts(row) && (!best || key(row) < key(*best))) best = row;
      return best;
    };
    const auto meets = [](const SizeRow& row) { return row.meets; };
    const auto time = [](const SizeRow& row) { return row.time; };
    answer_.cheapest = least(meets, [this](const SizeRow& row) { return cost(row); });
    answer_.fastest = least(meets, time);
    answer_.largest = least(meets, [](const SizeRow& row) { return -row.parameters; });
    if (answer_.cheapest) return;
    answer_.nearest =
        least([this](const SizeRow& row) { return options_.budget <= 0 || row.money <= options_.budget; }, time);
    if (!answer_.nearest)
      answer_.nearest = least([](const SizeRow&) { return true; }, [this](const SizeRow& row) { return cost(row); });
  }
};

}  // namespace

SizeAnswer size_clusters(const Node& document, const std::string& name, const SizeOptions& options) {
  return ClusterSizer(document, name, options).make();
}

}  // namespace trainyard
