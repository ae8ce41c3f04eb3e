#include "scenarios/src/sizing/size_nodes.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "models/hardware/adapter_rate.hpp"
#include "models/hardware/node_parts.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/running/node_power.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/search/plan_question.hpp"

namespace trainyard {
namespace {

Node size_scalar(const std::string& text) { return Node::scalar_node(text, Place::named("--nodes-of")); }

/// Throws UserError for the first word of the names of chips, such as "h100", with the nodes that have these chips.
void refuse_family(const Catalog& catalog, const std::string& name) {
  std::vector<std::string> all;
  for (const std::string& node : catalog.names("node"))
    if (read_node(catalog.resolve("node", size_scalar(node)), catalog).gpu.name.starts_with(name + "-"))
      all.push_back(node);
  if (!all.empty())
    throw UserError(
        fmt::format("--nodes-of: unknown node \"{}\"; nodes with such chips: {}", name, fmt::join(all, ", ")));
}

/// Returns the node type of this name, or all node types with the chip of this name.
std::vector<std::string> node_types_by_name(const Catalog& catalog, const std::string& name) {
  const std::vector<std::string> nodes = catalog.names("node"), chips = catalog.names("gpu");
  const auto has = [&name](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (has(nodes) || !has(chips)) {
    if (!has(nodes)) refuse_family(catalog, name);
    return {name};
  }
  std::vector<std::string> all;
  for (const std::string& node : nodes)
    if (read_node(catalog.resolve("node", size_scalar(node)), catalog).gpu.name == name) all.push_back(node);
  if (all.empty()) throw UserError(fmt::format("--nodes-of: no node of the catalog has the chip {}", name));
  return all;
}

std::vector<std::string> node_names(const Catalog& catalog, const std::vector<std::string>& requested) {
  if (requested.empty()) return catalog.names("node");
  std::vector<std::string> all;
  for (const std::string& name : requested)
    for (const std::string& node : node_types_by_name(catalog, name))
      if (std::ranges::find(all, node) == all.end()) all.push_back(node);
  return all;
}

/// Returns the node type of which an entry of the catalog is another name: it states nothing but its `base`. "": none.
std::string renamed_node(const Catalog& catalog, const std::string& name) {
  const Node entry = catalog.entry("node", name, Place::named("--nodes-of"));
  const Node* base = entry.find("base");
  const bool has_figures = std::ranges::any_of(
      entry.fields, [](const auto& field) { return field.first != "base" && field.first != "name"; });
  return base && base->kind == Node::Kind::scalar && !has_figures ? base->scalar : "";
}

/// If twice the nodes save less than this share of the time, more nodes do not help. For fewer additional nodes, the
/// limit is smaller in proportion.
constexpr double kLeastGain = 0.03;
/// Number of steps into which the interval between two numbers of nodes is divided.
constexpr int kStepsOfRound = 8;

class FewestFinder {
 public:
  explicit FewestFinder(const NodeCounts& counts) : counts_(counts) {}

  FewestNodes run(int guess) {
    int first = multiple_of_unit(guess);
    while (first > 0 && !counts_.has_plan(first)) first = multiple_of_unit(first / 2);
    if (first == 0) first = next_with_plan(counts_, multiple_of_unit(guess));
    if (first == 0) {
      look(std::max(counts_.unit, multiple_of_unit(guess)), false);  // reports why there is no plan
      return {};
    }
    const NodesOutcome found = look(first, false);
    if (found.in_time)
      shrink(first);
    else
      grow(first, found);
    if (found_.in_time == 0) try_rounder();
    if (found_.in_time > 0) refine();
    return found_;
  }

 private:
  const NodeCounts& counts_;
  FewestNodes found_;
  std::map<int, NodesOutcome> outcomes_;  // indexed by the number of nodes

  NodesOutcome look(int nodes, bool late_is_enough) {
    const auto [found, is_new] = outcomes_.try_emplace(nodes);
    if (is_new) found->second = counts_.look(nodes, late_is_enough);
    return found->second;
  }

  int multiple_of_unit(int nodes) const { return nodes / counts_.unit * counts_.unit; }

  /// Returns the largest number above `lower_limit` and up to `most` that has a plan. It tries numbers in steps of an
  /// eighth of the interval. 0: none has a plan.
  int most_with_plan(int most, int lower_limit) const {
    const int step = std::max(counts_.unit, multiple_of_unit((most - lower_limit) / kStepsOfRound));
    for (int nodes = multiple_of_unit(most); nodes > lower_limit; nodes -= step)
      if (counts_.has_plan(nodes)) return nodes;
    return 0;
  }

  void record(int nodes, bool in_time) { (in_time ? found_.in_time : found_.late) = nodes; }

  void shrink(int nodes) {
    record(nodes, true);
    while (found_.late == 0) {
      nodes = most_with_plan(found_.in_time / 2, 0);
      if (nodes == 0) return;
      record(nodes, look(nodes, true).in_time);
    }
  }

  void grow(int nodes, NodesOutcome last) {
    record(nodes, false);
    while (nodes < counts_.most) {
      int more_nodes = most_with_plan(std::min(2 * nodes, counts_.most), nodes);
      if (more_nodes == 0) more_nodes = next_with_plan(counts_, nodes);
      if (more_nodes == 0) return;
      const NodesOutcome next = look(more_nodes, false);
      record(more_nodes, next.in_time);
      if (next.in_time) return;
      const double least_gain = kLeastGain * (more_nodes - nodes) / nodes;
      if (last.good && (!next.good || next.time >= last.time * (1 - least_gain))) return;
      last = next;
      nodes = more_nodes;
    }
  }

  /// Tries numbers up to half below the last late one that have more factors of two: 24 below 25, of which few splits divide
  /// a batch, so that fewer nodes may be faster.
  void try_rounder() {
    const int late = found_.late, all = late + counts_.beside;
    for (int step = 2 * counts_.unit; step <= all; step *= 2) {
      const int rounder = multiple_of_unit(all / step * step - counts_.beside);
      if (rounder <= 0 || rounder == late || 2 * rounder <= late || outcomes_.contains(rounder) ||
          !counts_.has_plan(rounder))
        continue;
      if (!look(rounder, false).in_time) continue;
      found_.late = 0;
      return shrink(rounder);
    }
  }

  void refine() {
    int step = 1;
    while (2 * step * kStepsOfRound * counts_.unit <= found_.in_time - found_.late) step *= 2;
    for (; step > 1; step = std::max(1, step / kStepsOfRound)) try_multiples(step * counts_.unit);
    for (int nodes = found_.late + counts_.unit; nodes < found_.in_time; nodes += counts_.unit)
      if (counts_.has_plan(nodes)) record(nodes, look(nodes, true).in_time);
  }

  /// Evaluates the multiples of a step inside of the interval.
  void try_multiples(int step) {
    std::vector<int> candidates;
    for (int nodes = (found_.late / step + 1) * step; nodes < found_.in_time; nodes += step)
      candidates.push_back(nodes);
    while (!candidates.empty()) {
      const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(candidates.size() / 2);
      if (!counts_.has_plan(*middle)) {
        candidates.erase(middle);
        continue;
      }
      const bool in_time = look(*middle, true).in_time;
      record(*middle, in_time);
      if (in_time)
        candidates.erase(middle, candidates.end());
      else
        candidates.erase(candidates.begin(), middle + 1);
    }
  }
};

/// Moves a scenario to TPUs. It removes the strategy, and puts JAX in the place of a stack for GPUs. A plan for GPUs loses
/// its splits: pods are trained without pipelines, and the simulation of such a plan takes long. The catalog has no
/// library model for chips in a torus: collectives are simulated as flows. These agree with single messages within
/// 0.1 %, and their simulation takes a third of the time.
void put_on_tpus(Node& document) {
  const auto text = [&document](const char* value) { return Node::scalar_node(value, document.place); };
  Node& plan = *document.find("plan");
  std::erase_if(plan.fields, [](const auto& field) { return field.first == "strategy"; });
  const Node* software = document.find("software");
  const Node* base = software && software->kind == Node::Kind::map ? software->find("base") : software;
  const bool is_for_gpus = !base || base->scalar != "jax";
  if (is_for_gpus) plan = without_choices(plan);
  if (!plan.find("micro_batch_size")) set_field(plan, "micro_batch_size", text("1"));
  if (!plan.find("collectives")) set_field(plan, "collectives", text("flows"));
  if (is_for_gpus) set_field(document, "software", text("jax"));
}

}  // namespace

std::vector<NodeType> sized_nodes(const Catalog& catalog, const std::vector<std::string>& names, const Prices& prices,
                                  bool purchase, std::vector<std::string>& left_out) {
  std::vector<NodeType> all;
  const bool has_names = !names.empty();
  for (const std::string& name : node_names(catalog, names)) {
    if (const std::string other = has_names ? "" : renamed_node(catalog, name); !other.empty()) {
      left_out.push_back(fmt::format("{} (another name of {})", name, other));
      continue;
    }
    const NodeType node = read_node(catalog.resolve("node", size_scalar(name)), catalog);
    std::string reason;
    if (node.gpu.peak[static_cast<std::size_t>(Precision::bf16)].value <= 0) reason = "no bf16";
    if (node.hcas == 0 && node.fabric.empty()) reason = "no adapter";
    if (!has_names && node.gpu.memory_capacity < Bytes{32e9}) reason = "less than 32 GB a GPU";
    if (!has_names && is_tpu(node) && !prices.is_given()) reason = "TPU: considered only if it is named or has a price";
    if (prices.is_given()) try {
        if (purchase)
          prices.purchase.node_price(node.name, node.gpu.name, node.gpus, 1);
        else if (prices.gpu_hour(node.name, node.gpu.name, node.gpus) <= 0 && prices.kwh <= 0)
          fail(prices.place, "prices: no rent of " + node.name + "; --purchase compares purchase prices");
      } catch (const UserError&) {
        if (has_names) throw;
        reason = purchase ? "no purchase price" : "no price";
      }
    if (has_names && !reason.empty()) throw UserError(fmt::format("size: {}: {}", name, reason));
    if (reason.empty())
      all.push_back(node);
    else if (reason.ends_with(" price") || is_tpu(node))
      left_out.push_back(fmt::format("{} ({})", name, reason));
  }
  if (all.empty()) throw UserError("size: no node type is left; --prices has no price of one that trains in bf16");
  return all;
}

std::optional<Site> site_beside(Site site, const OwnedNodes& owned, const Catalog& catalog) {
  const double power = provided_power(owned.node, catalog).value;
  if (site.power.value > 0 && (site.power.value -= owned.nodes * power * site.pue) <= 0) return std::nullopt;
  if (site.racks > 0 && (site.racks -= racks_of(site, owned.node, owned.nodes, catalog)) <= 0) return std::nullopt;
  if (site.ports > 0 && (site.ports -= owned.nodes * owned.node.hcas) <= 0) return std::nullopt;
  return site;
}

/// Returns true if the bought nodes of a job stand before the owned ones: they have more memory.
bool is_before(const NodeType& node, const OwnedNodes& beside) {
  return node.gpu.memory_capacity > beside.node.gpu.memory_capacity;
}

/// Returns the entries of `cluster.nodes` for two types of nodes, those with more memory first. `fabric` and `links`:
/// those of the second type, null if one fabric joins both.
Node two_types(const NodeType& node, int nodes, const OwnedNodes& beside, const Node* fabric, const Node* links) {
  Node list = size_scalar("");
  list.kind = Node::Kind::list;
  const auto add = [&list](const NodeType& type, int count) {
    Node entry = Node::empty_map(list.place);
    entry.fields.emplace_back("count", size_scalar(fmt::format("{}", count)));
    entry.fields.emplace_back("node", size_scalar(type.name));
    list.items.push_back(std::move(entry));
  };
  const bool is_first = is_before(node, beside);
  if (is_first) add(node, nodes);
  add(beside.node, beside.nodes);
  if (!is_first) add(node, nodes);
  if (!fabric) return list;
  list.items.back().fields.emplace_back("fabric", *fabric);
  list.items.back().fields.emplace_back("links", *links);
  return list;
}

Node sized_scenario(const Node& original, const std::string& model, const NodeType& node, int nodes, bool searched,
                    const OwnedNodes* beside, const Purchase* purchase) {
  Node document = original;
  if (!model.empty()) set_field(document, "model", size_scalar(model));
  Node cluster = Node::empty_map(document.place);
  const Node* own_cluster = document.find("cluster");
  const Node* fabric = own_cluster ? own_cluster->find("fabric") : nullptr;
  const Node bought_fabric = fabric && fabric->kind != Node::Kind::null ? *fabric : size_scalar("nonblocking");
  const std::string& owned_name = beside ? beside->node.name : node.name;
  const Purchase::OwnedFabric* owned = purchase ? purchase->owned_fabric(owned_name) : nullptr;
  if (owned && !beside && nodes > purchase->number_owned(owned_name)) owned = nullptr;  // more of them are bought
  if (!beside) {
    cluster.fields.emplace_back("node", size_scalar(node.name));
    cluster.fields.emplace_back("nodes", size_scalar(fmt::format("{}", nodes)));
    if (nodes > 1 && node.fabric.empty()) cluster.fields.emplace_back("fabric", owned ? owned->fabric : bought_fabric);
  } else {
    const bool is_first = is_before(node, *beside);
    const Node* second = !owned ? nullptr : is_first ? &owned->fabric : &bought_fabric;
    cluster.fields.emplace_back("nodes", two_types(node, nodes, *beside, second, owned ? &owned->links : nullptr));
    cluster.fields.emplace_back("fabric", owned && !is_first ? owned->fabric : bought_fabric);
  }
  set_field(document, "cluster", std::move(cluster));
  if (is_tpu(node)) put_on_tpus(document);
  std::erase_if(document.fields, [](const auto& field) { return field.first == "faults"; });
  Node& plan = *document.find("plan");
  if (searched) std::erase_if(plan.fields, [](const auto& field) { return field.first == "training"; });
  const Node* pipeline = plan.find("pipeline");
  if (searched && beside && (!pipeline || (!pipeline->find("layers") && !pipeline->find("stages"))))
    set_field(document, "plan.pipeline.layers", size_scalar("balanced"));
  if (searched) return document;
  plan = without_choices(plan);
  std::erase_if(plan.fields, [](const auto& field) { return field.first == "pipeline" || field.first == "strategy"; });
  set_field(plan, "micro_batch_size", size_scalar("1"));
  set_field(plan, "data_parallel", Node::empty_map(plan.place));
  set_field(plan, "data_parallel.size", size_scalar("1"));
  set_field(plan, "idle_devices", size_scalar("allowed"));
  return document;
}

std::string path_of_fabric(const Node& document, const std::string& node) {
  const Node* nodes = document.find("cluster")->find("nodes");
  if (nodes && nodes->kind == Node::Kind::list && nodes->items.back().find("fabric") &&
      nodes->items.back().find("node")->scalar == node)
    return fmt::format("cluster.nodes.{}.fabric", nodes->items.size() - 1);
  return "cluster.fabric";
}

PlanSpaceOptions sized_space(const PlanQuestion& question, const Node& document) {
  PlanSpaceOptions space;
  if (!question.own && document.find("plan")->find("pipeline") == nullptr) {
    std::vector<std::string> schedules = schedules_of_mode(question.base.strategy);
    std::erase_if(schedules, [](const std::string& name) { return name != "1f1b" && name != "interleaved-1f1b"; });
    if (!schedules.empty()) space.vary.push_back({"plan.pipeline.schedule", schedules});
  }
  // Pods are trained without pipelines (Chowdhery et al. 2022, PaLM, section 4).
  if (is_tpu(question.base.cluster.node) && document.find("plan")->find("pipeline") == nullptr)
    space.vary.push_back({"plan.pipeline_parallel", {"1"}});
  return space;
}

double compared_price(const Prices& prices, const NodeType& node, bool purchase) {
  if (purchase) return prices.purchase.node_price(node.name, node.gpu.name, node.gpus, 1) / node.gpus;
  const double rent = prices.is_given() ? prices.gpu_hour(node.name, node.gpu.name, node.gpus) : 0;
  return rent > 0 ? rent : 1;
}

void keep_samples(Node& training, std::int64_t batch, std::int64_t new_batch) {
  for (const char* key : {"steps", "steps_per_epoch"})
    if (Node* steps = training.find(key))
      steps->scalar = fmt::format("{:.0f}", std::ceil(parse_number(steps->scalar) * static_cast<double>(batch) /
                                                      static_cast<double>(new_batch)));
}

int next_with_plan(const NodeCounts& counts, int nodes) {
  constexpr int tries_of_step = 64;
  int step = counts.unit, tries = 0;
  for (int next = (nodes / step + 1) * step; next <= counts.most; next = (next / step + 1) * step) {
    if (counts.has_plan(next)) return next;
    if (++tries % tries_of_step == 0) step *= 2;
  }
  return 0;
}

FewestNodes find_fewest_nodes(int guess, const NodeCounts& counts) { return FewestFinder(counts).run(guess); }

void set_checkpoint_times(Node& faults, const Scenario& step) {
  Node* checkpoint = faults.find("checkpoint");
  const Node* store = checkpoint ? checkpoint->find("storage") : nullptr;
  if (!store || store->kind == Node::Kind::null || (store->kind == Node::Kind::scalar && store->scalar == "local"))
    return;
  const Storage storage = read_storage(Catalog().resolve("storage", *store));
  if (storage.lanes != 0) return;  // the storage is a drive of the host
  const NodeType& host = step.cluster.node;
  const double bytes =
      checkpoint_state(step.network.parameters(), step.precision, step.optimizer, step.software).total().value;
  const double adapters = adapter_rate(host).value * host.hcas * step.cluster.nodes;
  const auto set_time = [&](const char* key, double rate) {
    if (!checkpoint->find(key))
      set_field(*checkpoint, key, Node::scalar_node(fmt::format("{:.6g} s", bytes / rate), checkpoint->place));
  };
  const Node* kind = checkpoint->find("kind");
  if (kind && kind->scalar == "asynchronous") set_time("snapshot", host.gpu.pcie.value * step.cluster.gpus());
  set_time("write", std::min(storage.write.value, adapters));
  set_time("load", std::min(storage.read.value, adapters));
  std::erase_if(checkpoint->fields, [](const auto& field) { return field.first == "storage"; });
}

}  // namespace trainyard
