#include "scenarios/src/sizing/size_nodes.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "models/hardware/adapter_rate.hpp"
#include "models/hardware/node_parts.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/search/plan_question.hpp"

namespace trainyard {
namespace {

Node size_scalar(const std::string& text) { return Node::scalar_node(text, Place::named("--nodes-of")); }

/// Returns the node type of this name, or all node types with the chip of this name.
std::vector<std::string> node_types_by_name(const Catalog& catalog, const std::string& name) {
  const std::vector<std::string> nodes = catalog.names("node"), chips = catalog.names("gpu");
  const auto has = [&name](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (has(nodes) || !has(chips)) return {name};
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
    if (first == 0) {
      counts_.look(std::max(counts_.unit, multiple_of_unit(guess)), false);  // reports why there is no plan
      return {};
    }
    const NodesOutcome found = counts_.look(first, false);
    if (found.in_time)
      shrink(first);
    else
      grow(first, found);
    if (found_.in_time > 0) refine();
    return found_;
  }

 private:
  const NodeCounts& counts_;
  FewestNodes found_;

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
      record(nodes, counts_.look(nodes, true).in_time);
    }
  }

  void grow(int nodes, NodesOutcome last) {
    record(nodes, false);
    while (nodes < counts_.most) {
      const int more_nodes = most_with_plan(std::min(2 * nodes, counts_.most), nodes);
      if (more_nodes == 0) return;
      const NodesOutcome next = counts_.look(more_nodes, false);
      record(more_nodes, next.in_time);
      if (next.in_time) return;
      const double least_gain = kLeastGain * (more_nodes - nodes) / nodes;
      if (last.good && (!next.good || next.time >= last.time * (1 - least_gain))) return;
      last = next;
      nodes = more_nodes;
    }
  }

  void refine() {
    int step = 1;
    while (2 * step * kStepsOfRound * counts_.unit <= found_.in_time - found_.late) step *= 2;
    for (; step > 1; step = std::max(1, step / kStepsOfRound)) try_multiples(step * counts_.unit);
    for (int nodes = found_.late + counts_.unit; nodes < found_.in_time; nodes += counts_.unit)
      if (counts_.has_plan(nodes)) record(nodes, counts_.look(nodes, true).in_time);
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
      const bool in_time = counts_.look(*middle, true).in_time;
      record(*middle, in_time);
      if (in_time)
        candidates.erase(middle, candidates.end());
      else
        candidates.erase(candidates.begin(), middle + 1);
    }
  }
};

}  // namespace

std::vector<NodeType> sized_nodes(const Catalog& catalog, const std::vector<std::string>& names, const Prices& prices,
                                  bool purchase, std::vector<std::string>& left_out) {
  std::vector<NodeType> all;
  const bool has_names = !names.empty();
  for (const std::string& name : node_names(catalog, names)) {
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

std::optional<RackRoom> rack_room(const Site& site, const NodeType& node, const Catalog& catalog) {
  if (!site.knows_racks()) return std::nullopt;
  std::optional<RackRoom> least;
  const auto limit = [&least](const char* key, double nodes) {
    if (!least || nodes < least->nodes) least = RackRoom{static_cast<int>(nodes), key};
  };
  if (site.rack_power.value > 0)
    limit("rack_power", std::floor(site.rack_power.value / provided_power(node, catalog).value));
  if (site.rack_units > 0) {
    if (node.rack_units == 0)
      throw UserError(fmt::format("the height of {} is not stated (rack_units of a node)", node.name));
    limit("rack_units", std::floor(1.0 * site.rack_units / node.rack_units));
  }
  if (site.rack_nodes > 0) limit("rack_nodes", site.rack_nodes);
  return least ? least : RackRoom{1, "racks"};
}

int racks_of(const Site& site, const NodeType& node, int nodes, const Catalog& catalog) {
  const std::optional<RackRoom> room = rack_room(site, node, catalog);
  return room && room->nodes > 0 ? (nodes + room->nodes - 1) / room->nodes : 0;
}

std::optional<SizeSiteLimit> site_limit(const Site& site, const NodeType& node, const Catalog& catalog) {
  if ((site.power.value > 0 || site.rack_power.value > 0) && !node.gpu.power.is_given())
    throw UserError(fmt::format("the power of {} is not stated", node.gpu.name));
  const double power = provided_power(node, catalog).value;
  constexpr double most_nodes = 1e9;
  std::optional<SizeSiteLimit> least;
  const auto limit = [&](const std::string& name, double nodes, const std::string& shortage) {
    if (!least || nodes < least->nodes)
      least = SizeSiteLimit{node.name,
                            static_cast<int>(std::min(nodes, most_nodes)),
                            name,
                            power,
                            site.power.value,
                            site.pue,
                            0,
                            "",
                            nodes < 1 ? shortage : ""};
  };
  const auto kilowatts = [](double watts) { return fmt::format("{:.4g} kW", watts / 1e3); };
  if (site.power.value > 0)
    limit("power", std::floor(site.power.value / (power * site.pue)),
          fmt::format("a node needs {}{}, and the site has {}", kilowatts(power * site.pue),
                      site.pue > 1 ? " with cooling" : "", kilowatts(site.power.value)));
  const std::optional<RackRoom> room = rack_room(site, node, catalog);
  if (room && (site.racks > 0 || room->nodes < 1))
    limit(room->limit, 1.0 * std::max(1, site.racks) * room->nodes,
          room->limit == "rack_units"
              ? fmt::format("a node has {} units, and a rack has {}", node.rack_units, site.rack_units)
              : fmt::format("a node needs {}, and a rack has {}", kilowatts(power), kilowatts(site.rack_power.value)));
  if (site.ports > 0 && node.hcas > 0)
    limit("ports", std::floor(1.0 * site.ports / node.hcas),
          fmt::format("a node has {} adapters, and the site {} ports", node.hcas, site.ports));
  if (least && room) {
    least->nodes_of_rack = room->nodes;
    least->rack_limit = room->limit;
  }
  return least;
}

std::optional<Site> site_beside(Site site, const OwnedNodes& owned, const Catalog& catalog) {
  const double power = provided_power(owned.node, catalog).value;
  if (site.power.value > 0 && (site.power.value -= owned.nodes * power * site.pue) <= 0) return std::nullopt;
  if (site.racks > 0 && (site.racks -= racks_of(site, owned.node, owned.nodes, catalog)) <= 0) return std::nullopt;
  if (site.ports > 0 && (site.ports -= owned.nodes * owned.node.hcas) <= 0) return std::nullopt;
  return site;
}

/// Returns the entries of `cluster.nodes` for two types of nodes, those with more memory first.
Node two_types(const NodeType& node, int nodes, const OwnedNodes& beside) {
  Node list = size_scalar("");
  list.kind = Node::Kind::list;
  const auto add = [&list](const NodeType& type, int count) {
    Node entry = Node::empty_map(list.place);
    entry.fields.emplace_back("count", size_scalar(fmt::format("{}", count)));
    entry.fields.emplace_back("node", size_scalar(type.name));
    list.items.push_back(std::move(entry));
  };
  const bool is_larger = node.gpu.memory_capacity > beside.node.gpu.memory_capacity;
  if (is_larger) add(node, nodes);
  add(beside.node, beside.nodes);
  if (!is_larger) add(node, nodes);
  return list;
}

Node sized_scenario(const Node& original, const std::string& model, const NodeType& node, int nodes, bool searched,
                    const OwnedNodes* beside) {
  Node document = original;
  if (!model.empty()) set_field(document, "model", size_scalar(model));
  Node cluster = Node::empty_map(document.place);
  const Node* own_cluster = document.find("cluster");
  const Node* fabric = own_cluster ? own_cluster->find("fabric") : nullptr;
  if (!beside) cluster.fields.emplace_back("node", size_scalar(node.name));
  cluster.fields.emplace_back("nodes",
                              beside ? two_types(node, nodes, *beside) : size_scalar(fmt::format("{}", nodes)));
  if (beside || (nodes > 1 && node.fabric.empty()))
    cluster.fields.emplace_back("fabric", fabric ? *fabric : size_scalar("nonblocking"));
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

FewestNodes find_fewest_nodes(int guess, const NodeCounts& counts) { return FewestFinder(counts).run(guess); }

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

void set_checkpoint_times(Node& faults, const Scenario& step) {
  Node* checkpoint = faults.find("checkpoint");
  const Node* store = checkpoint ? checkpoint->find("storage") : nullptr;
  if (!store || (store->kind == Node::Kind::scalar && store->scalar == "local")) return;
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
