// The energy of a step, from the utilization of each device in the run, and the costs of step and training.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "scenarios/src/running/bought_network.hpp"
#include "scenarios/src/running/node_power.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_result.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "strategies/step/pass_table.hpp"
#include "topologies/analysis/network_design.hpp"

namespace trainyard {
namespace {

/// Returns true if a group of work is done on the host, without kernels of the GPU.
bool is_of_host(const std::string& group) { return group == "framework" || group == kInputGroup; }

GpuTime time_of(const BreakdownParts& parts, double step) {
  GpuTime time;
  for (const auto& [group, seconds] : parts.work)
    if (!is_of_host(group)) time.kernels += seconds.value / step;
  for (const auto& [group, seconds] : parts.exposed)
    if (!is_of_host(group)) time.exposed_communication += seconds.value / step;
  time.exposed_communication += parts.all_joining().value / step;  // its kernel runs while it waits for the others
  return time;
}

/// Adds the GPUs of each type of node, by their mean utilization. GPUs without a rank are idle.
void add_gpus(const StepRun& run, double step_time, std::vector<PoweredDevices>& all) {
  const ClusterSpec& cluster = run.scenario.cluster;
  IndexedVector<double, Actor> ranks_of(position(run.simulated_ranks()));  // number of ranks that each actor stands for
  for (Actor rank = 0; rank < run.scenario.ranks(); ++rank) ++ranks_of[run.actor_of_rank(rank)];
  std::map<const NodeType*, double> busy;  // sum of the utilization of ranks
  for (Actor seen = 0; seen < run.simulated_ranks(); ++seen) {
    const double ranks = ranks_of[seen];
    const NodeType& type = cluster.type_of_gpu(run.rank_of(seen));
    const BreakdownParts parts = run.window.parts(seen);
    const double steps = run.window.own_steps(seen);
    const double time = run.is_synchronous() ? std::max(step_time * steps, parts.total.value) : parts.total.value;
    if (time <= 0) continue;
    const GpuTime gpu = time_of(parts, time);
    if (!run.shared_draws) {
      busy[&type] += ranks * utilization(type.gpu.power, gpu);
      continue;
    }
    const int warm = run.window.warm_steps(), behind = warm + run.window.steps();
    for (const Actor rank : run.fold ? run.fold->members(seen) : std::vector<Actor>{seen}) {
      const double step = time / steps;
      const auto rank_time = run.shared_draws->time_of_rank(
          rank,
          {gpu.kernels * step, (parts.bubble - parts.all_joining()).value / steps, gpu.exposed_communication * step},
          warm, behind);
      busy[&type] += utilization(type.gpu.power, {rank_time.kernels / step, rank_time.exposed / step});
    }
  }
  for (const auto& [type, nodes] : cluster.counted_types()) {
    const double gpus = static_cast<double>(nodes) * type->gpus, mean = busy[type] / gpus;
    all.push_back({"GPU", gpus, type->gpu.power, mean});
    all.push_back({"rest of the node", type->rest_power.is_given() ? nodes : 0.0, type->rest_power, mean});
  }
}

/// Returns the utilization of the CPUs of a node: one core for each GPU launches kernels and polls, and workers decode
/// samples.
double cpu_utilization(const StepRun& run, const NodeType& type, const Result& r) {
  const double cores = static_cast<double>(type.cpu.cores) * type.sockets;
  if (cores <= 0) return 1;
  const double decoding = r.input ? run.scenario.input.supply.workers * r.input->decode_busy : 0;
  return std::min(1.0, (type.gpus + decoding) / cores);
}

/// Returns the design of this part's fabric, with the cables to other parts, of switches with so many ports. No value or a
/// UserError: the switches of such a fabric are not known.
std::optional<NetworkDesign> design_of(const ClusterSpec& part, int ports) {
  std::optional<NetworkDesign> design = network_of_fabric(part, ports);
  if (design && part.border_cables > 0) add_border(*design, part.border_cables, part.fabric->has_top(), ports);
  return design;
}

/// Counts the whole switches of this part's fabric, as the purchase does. If their design is not known, each switch of the
/// graph is as many as its cables need; a cable with several times the rate of a port needs several.
double whole_switches(const DeviceGraph& graph, const ClusterSpec& part) {
  try {
    if (const auto design = design_of(part, part.switch_ports)) return static_cast<double>(design->switches);
  } catch (const UserError&) {  // its parts are counted below
  }
  const double rate = part.switch_rate.value;
  std::map<DeviceId, double> ports;
  for (std::size_t i = 0; i < graph.wires().size(); i += 2) {  // there and back
    const DeviceGraph::End ends = graph.ends(static_cast<LinkId>(i));
    const double cables = std::max(1.0, std::ceil(graph.wires()[i].capacity.value / rate - 1e-9));
    for (const DeviceId end : {ends.from, ends.to})
      if (const Device& device = graph.devices()[static_cast<std::size_t>(end)];
          device.kind == DeviceKind::network_switch && device.island == part.island)
        ports[end] += cables;
  }
  double switches = 0;
  for (const auto& [device, used] : ports) switches += std::ceil(used / part.switch_ports);
  return switches;
}

void add_network(const ClusterSpec& cluster, const ClusterMachine& machine, std::vector<PoweredDevices>& all) {
  if (!cluster.uses_hcas()) return;
  // The power of adapters and switches hardly depends on their traffic.
  for (const auto& [type, nodes] : cluster.counted_types())
    all.push_back({"HCA", static_cast<double>(nodes) * type->hcas, type->hca_power});
  for (const ClusterSpec& part : cluster.parts()) {
    const bool counts_ports = part.switch_power.is_given() && part.switch_ports > 0 && part.switch_rate.value > 0;
    all.push_back({"switch", counts_ports ? whole_switches(machine.graph(), part) : 1, part.switch_power});
  }
}

constexpr double kHour = 3600;  // seconds

/// Returns the price of an hour of all nodes of `cluster` that are bought. Nodes that are owned already have no rent. No
/// value: one of the types has no price.
std::optional<double> hour_of_bought(const ClusterSpec& cluster, const Purchase& purchase,
                                     const std::function<std::optional<double>(const NodeType&)>& gpu_hour) {
  double all = 0;
  for (const auto& [type, nodes] : cluster.counted_types()) {
    const int bought_nodes = std::max(0, nodes - purchase.number_owned(type->name));
    if (bought_nodes == 0) continue;
    const std::optional<double> hour = gpu_hour(*type);
    if (!hour) return std::nullopt;
    all += bought_nodes * type->gpus * *hour;
  }
  return all;
}

/// Adds a type whose price is that of a whole node of the catalog, if the cluster has fewer of its GPUs.
void add_whole_node(const NodeType& type, const Purchase& purchase, std::string& words) {
  const Catalog catalog;
  const auto is_type = [&type](const auto& priced) { return priced.first == type.name; };
  if (std::ranges::none_of(purchase.nodes, is_type)) return;
  if (const std::vector<std::string> names = catalog.names("node"); std::ranges::find(names, type.name) == names.end())
    return;
  const int all = read_node(catalog.resolve("node", Node::scalar_node(type.name)), catalog).gpus;
  if (type.gpus < all)
    words += fmt::format("{}a {} of {} GPUs, of which the cluster has {}", words.empty() ? "" : "; ", type.name, all,
                         type.gpus);
}

/// Adds the cost of owning `cluster`. `units`: number of tokens or samples in a step.
void book_ownership(const Scenario& s, const ClusterSpec& cluster, double units, const Result& r, Money& money) {
  constexpr double year = kHoursOfYear * kHour;
  const Purchase& purchase = s.prices.purchase;
  const auto types_of_nodes = cluster.counted_types();
  if (!std::ranges::all_of(
          types_of_nodes, [&](const auto& each) { return purchase.has_price(each.first->name, each.first->gpu.name); }))
    return;
  if ((purchase.kwh > 0 || purchase.kw_month > 0) && !r.energy)
    fail(purchase.place, fmt::format("prices.purchase.{}: the power of {} is not stated",
                                     purchase.kwh > 0 ? "kwh" : "kw_month", s.cluster.node.gpu.name));
  std::vector<BoughtNodes> types;
  std::string whole_nodes;
  for (const auto& [type, nodes] : types_of_nodes) {
    const Watts most = purchase.kw_month > 0 ? provided_power(*type, Catalog()) : type->most_power();
    types.push_back({type->name, type->gpu.name, nodes, type->gpus, type->hcas, most.value});
    if (nodes > purchase.number_owned(type->name)) add_whole_node(*type, purchase, whole_nodes);
  }
  const auto on_demand = [&s](const NodeType& type) {
    return std::optional(s.prices.gpu_hour(type.name, type.gpu.name, type.gpus));
  };
  const double pue = r.energy ? r.energy->pue : 1, site = r.energy ? r.energy->step() / r.whole_step().value : 0;
  const double training = r.whole_time().value,
               watts = training > 0 && r.energy ? r.training_energy() / training : site;
  Ownership all = cost_of_ownership(purchase, types, watts / pue, pue, *hour_of_bought(cluster, purchase, on_demand));
  for (const Prices::Offer& offer : s.prices.offers) {
    const auto hour = hour_of_bought(cluster, purchase, [&offer](const NodeType& type) {
      return Prices::gpu_hour_among(offer.rents, type.name, type.gpu.name, type.gpus);
    });
    if (!hour || *hour <= 0) continue;
    const double year_of_rent = *hour * kHoursOfYear;
    if (offer.months > 0)
      all.add_rent(offer.name(), year_of_rent * offer.idle, year_of_rent);
    else
      all.spot_year = year_of_rent + all.owned_in_use + all.owned_unused;
  }
  all.whole_nodes = std::move(whole_nodes);
  set_fabric_network(s.cluster, purchase, all);
  const double cost_per_second = all.year() / year;
  all.training = cost_per_second * training;
  const double steps = r.completed_steps();
  all.per_million = 1e6 * (steps > 0 ? all.training / steps : cost_per_second * r.whole_step().value) / units;
  money.ownership = std::move(all);
}

}  // namespace

void book_energy(const StepRun& run, Result& r) {
  const Scenario& s = run.scenario;
  if (!s.cluster.node.gpu.power.is_given()) return;
  std::vector<PoweredDevices> all;
  add_gpus(run, r.step_time.value, all);
  for (const auto& [type, nodes] : s.cluster.counted_types())
    all.push_back({"CPU", static_cast<double>(nodes) * type->sockets, type->cpu.power, cpu_utilization(run, *type, r)});
  add_network(s.cluster, run.machine.cluster, all);
  r.energy = energy_of(all, r.step_time.value, s.site);
}

namespace {

constexpr const char* kRestOfNode = "rest of the node";

/// Nodes of a loop with the same work, by their number over that of the nodes that train.
struct LoopNodes {
  double share = 1;
  double trains = 0;  ///< time of a step in which they train or compute log-probabilities, s
  GpuTime engine;     ///< times of a step in which an engine on them runs kernels and exchanges, s
};

/// Adds the energy of these nodes in a step of the loop, by part. They draw the power of the training half while they
/// train. In the rest of the step their GPUs have the mean utilization of the engines. CPUs and the network draw the
/// power of the training half all the time.
void add_loop_nodes(const Scenario& s, const Result& r, const LoopNodes& nodes, std::map<std::string, double>& parts) {
  const double step = r.post_training->step_time.value, rest = std::max(0.0, step - nodes.trains);
  for (const auto& [part, joules] : r.energy->parts) {
    const bool follows_gpu = part == "GPU" || part == kRestOfNode;
    parts[part] += nodes.share * joules / r.step_time.value * (follows_gpu ? nodes.trains : step);
  }
  if (rest <= 0) return;
  const GpuTime time{nodes.engine.kernels / rest, nodes.engine.exposed_communication / rest};
  for (const auto& [type, count] : s.cluster.counted_types()) {
    const double use = utilization(type->gpu.power, time), number = nodes.share * count;
    parts["GPU"] += number * type->gpus * type->gpu.power.power(use).value * rest;
    if (type->rest_power.is_given()) parts[kRestOfNode] += number * type->rest_power.power(use).value * rest;
  }
}

}  // namespace

void book_loop_energy(const Scenario& s, Result& r) {
  if (!r.energy) return;
  const PostTrainingChoice& loop = *s.post_training;
  const PostTrainingResult& p = *r.post_training;
  const PostTrainingResult::EngineParts& e = p.parts;
  const double work = (e.prefill + e.products + e.cache + e.exchanges + e.host).value;
  GpuTime engine;
  if (work > 0)
    engine = {p.busy_engine.value * (e.prefill + e.products + e.cache).value / work,
              p.busy_engine.value * e.exchanges.value / work};
  const double critic_nodes = p.critic_gpus > 0 ? loop.critic_nodes() : 0;
  LoopNodes training{1, std::max(0.0, (p.training + p.log_probabilities - p.controller).value), {}};
  if (loop.shares_gpus()) training.engine = engine;
  std::vector<LoopNodes> all{training};
  if (loop.has_own_nodes()) all.push_back({static_cast<double>(loop.nodes) / s.cluster.nodes, 0, engine});
  if (critic_nodes > 0) all.push_back({critic_nodes / s.cluster.nodes, p.critic.value, {}});
  std::map<std::string, double> parts;
  double machine = 0, gpus = 0, more_idle = 0;
  for (const LoopNodes& nodes : all) {
    add_loop_nodes(s, r, nodes, parts);
    machine += nodes.share;
  }
  for (const auto& [type, count] : s.cluster.counted_types()) gpus += machine * count * type->gpus;
  if (const ClusterSpec all_nodes = loop_machine(s); !s.cluster.uses_hcas() && all_nodes.uses_hcas()) {
    // The training half has one node, so that no network is in its energy.
    std::vector<PoweredDevices> devices;
    add_network(all_nodes, ClusterMachine(all_nodes, s.software), devices);
    const Energy network = energy_of(devices, p.step_time.value, s.site);
    for (const auto& [part, joules] : network.parts) parts[part] += joules;
    if (!network.not_stated.empty())
      r.energy->not_stated += (r.energy->not_stated.empty() ? "" : ", ") + network.not_stated;
    more_idle = network.idle_power;
  }
  r.energy->parts = std::move(parts);
  r.energy->gpu_power = r.energy->parts["GPU"] / p.step_time.value / gpus;
  r.energy->idle_power = r.energy->idle_power * machine + more_idle;
}

std::optional<double> cluster_hour(const ClusterSpec& cluster,
                                   const std::function<std::optional<double>(const NodeType&)>& gpu_hour) {
  double all = 0;
  for (const auto& [type, nodes] : cluster.counted_types()) {
    const std::optional<double> hour = gpu_hour(*type);
    if (!hour) return std::nullopt;
    all += nodes * type->gpus * *hour;
  }
  return all;
}

BoughtNetwork bought_network(const ClusterSpec& cluster, const Purchase& purchase) {
  const auto types = cluster.counted_types();
  const bool has_adapters = std::ranges::any_of(types, [](const auto& each) { return each.first->hcas > 0; });
  if (!cluster.uses_hcas() || !cluster.fabric || !has_adapters) return {};
  BoughtNetwork all;
  for (const NodeGroup& group : cluster.others) all.cables += group.links.count;
  for (const ClusterSpec& part : cluster.parts()) {
    const std::string& type = part.node.name;
    if (part.others.empty() && purchase.owned_fabric(type) && part.nodes <= purchase.number_owned(type)) continue;
    const std::string name = part.fabric_name.empty() ? part.fabric->type() : part.fabric_name;
    const std::string unknown = fmt::format("network, since the parts of {} are not known", name);
    try {
      const std::optional<NetworkDesign> design = design_of(part, purchase.switch_ports);
      if (!design) return {0, 0, fmt::format("{} with switches of {} ports", unknown, purchase.switch_ports)};
      all.switches += design->switches;
      all.cables += design->cables() - design->border_cables;  // those to other fabrics are counted once
    } catch (const UserError& e) {
      return {0, 0, fmt::format("{}: {}", unknown, e.what())};
    }
  }
  return all;
}

void set_fabric_network(const ClusterSpec& cluster, const Purchase& purchase, Ownership& all) {
  const bool has_switches = !purchase.network_switch.empty(), has_cables = !purchase.cable.empty();
  if (!has_switches && !has_cables && all.purchase_prices.at("nodes") > 0 && cluster.uses_hcas())
    all.leave_out("network, since prices.purchase has no switch and no cable");
  int nodes = 0;
  for (const auto& [type, count] : cluster.counted_types()) nodes += count;
  if ((!has_switches && !has_cables) || nodes < 2 || all.owned_nodes >= nodes)
    return;  // no network is bought, or priced
  const BoughtNetwork network = bought_network(cluster, purchase);
  all.set_network(purchase, purchase.price_of_switches(static_cast<double>(network.switches)),
                  purchase.price_of_cables(static_cast<double>(network.cables)));
  if (!network.unknown.empty()) return all.leave_out(network.unknown);
  if (!has_switches) all.leave_out("switches, since prices.purchase has no switch");
  if (!has_cables) all.leave_out("cables, since prices.purchase has no cable");
}

void book_money(const Scenario& s, Result& r) {
  if (!s.prices.is_given()) return;
  const auto gpu_hour = [&s](const NodeType& type) { return s.prices.gpu_hour(type.name, type.gpu.name, type.gpus); };
  const ClusterSpec cluster = s.post_training ? loop_machine(s) : s.cluster;
  const double rent = *cluster_hour(cluster, gpu_hour) / kHour;  // per second
  const double joule_price = s.prices.kwh / kJoulesOfKwh;
  if (joule_price > 0 && !r.energy)
    fail(s.prices.place, "prices.kwh: the power of " + s.cluster.node.gpu.name + " is not stated");
  Money money;
  money.currency = s.prices.currency;
  money.training = rent * r.whole_time().value + joule_price * r.training_energy();
  money.step = rent * r.whole_step().value + (r.energy ? joule_price * r.energy->step() : 0);
  // Failures, checkpoints and phases are paid by the completed steps.
  if (const double steps = r.completed_steps(); steps > 0) money.step = money.training / steps;
  money.of_tokens = s.network.tokens_per_sample > 1;
  const double units = r.post_training ? r.tokens_of_step()
                                       : static_cast<double>(s.global_batch_size) *
                                             (money.of_tokens ? static_cast<double>(s.network.tokens_per_sample) : 1);
  money.per_million = 1e6 * money.step / units;
  if (r.post_training) money.per_million_answers = 1e6 * money.step / r.samples_of_step();
  book_ownership(s, cluster, units, r, money);
  r.money = std::move(money);
}

}  // namespace trainyard
