#include "scenarios/planning/server_plans.hpp"

#include <fmt/format.h>

#include <numeric>

#include "scenarios/planning/held_memory.hpp"

namespace trainyard {
namespace {

std::vector<Actor> devices_of(const ClusterMachine& machine, int node, DeviceKind kind) {
  std::vector<Actor> actors;
  for (const DeviceId id : machine.graph().all(kind))
    if (machine.graph().devices()[static_cast<std::size_t>(id)].node == node) actors.push_back(machine.actor(id));
  return actors;
}

/// Servers take the CPUs or GPUs of their nodes in turn.
std::vector<Actor> places_of(const ServerChoice& choice, const ClusterMachine& machine) {
  const bool on_cpu = choice.on == ServerChoice::On::cpu;
  std::map<int, std::size_t> used;
  std::vector<Actor> places;
  for (int server = 0; server < choice.count; ++server) {
    const int node = choice.nodes[static_cast<std::size_t>(server) % choice.nodes.size()];
    const std::vector<Actor> devices = devices_of(machine, node, on_cpu ? DeviceKind::cpu : DeviceKind::gpu);
    const std::size_t take = choice.on == ServerChoice::On::gpus ? devices.size() : 1;
    if (devices.empty() || used[node] + take > devices.size())
      fail(choice.place, fmt::format("plan.data_parallel.servers: node {} has {} {}{}, too few for its servers", node,
                                     devices.size(), on_cpu ? "CPU" : "GPU", devices.size() == 1 ? "" : "s"));
    for (std::size_t i = 0; i < take; ++i) places.push_back(devices[used[node]++]);
  }
  return places;
}

}  // namespace

PlacedServers placed_servers(const Scenario& s, const ClusterMachine& machine, const SoftwareStack& stack) {
  const ServerChoice& choice = s.parallel.servers;
  const std::vector<Actor> places = places_of(choice, machine);
  PlacedServers placed;
  ServerPlan& plan = placed.plan;
  plan = server_plan(s.network, s.plan, static_cast<int>(places.size()), choice.shards, choice.place);
  plan.consistency = choice.consistency;
  plan.staleness = choice.staleness;
  plan.backup_workers = choice.backup_workers;
  plan.worker_weights = choice.worker_weights;
  const double parameters = s.network.parameters();
  SoftwareStack held = stack;
  held.gradient_bucket_copy = false;
  const double own = plan.mixes() ? parameters : 0;  // such workers update their own weights
  plan.base.step.stages.front().memory =
      static_memory(HeldElements{parameters, parameters, own}, s.precision, s.optimizer, held);
  plan.base.memory = model_states({parameters, parameters, plan.mixes() ? 0 : parameters}, s.precision, s.optimizer);
  for (Actor worker = 0; worker < plan.workers(); ++worker) placed.actors.push_back({worker, ""});
  for (std::size_t server = 0; server < places.size(); ++server)
    placed.actors.push_back({places[server], fmt::format("server {}", server)});
  if (plan.backup_workers > 0) placed.actors.push_back({places.front(), "chief"});
  return placed;
}

std::vector<GradientBucket> server_keys(const Scenario& s) {
  std::vector<int> layers(s.network.layers.size());
  std::iota(layers.begin(), layers.end(), 0);
  switch (s.parallel.servers.keys) {
    case ServerChoice::Keys::tensors:
      return gradient_buckets(s.network, s.plan.gradient_element, Bytes{1}, Bytes{1}, true);
    case ServerChoice::Keys::layers:
      return layer_buckets(s.network, layers);
    case ServerChoice::Keys::buckets:
      break;
  }
  return s.plan.buckets;
}

}  // namespace trainyard
