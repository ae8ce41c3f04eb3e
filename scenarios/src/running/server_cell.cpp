#include "scenarios/src/running/server_cell.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/executor/simulation.hpp"
#include "strategies/step/pass_table.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

constexpr double kFlops = 1e12;  // FLOP/s of a device of star_cluster

/// Makes a network with a layer of one tensor for each key. The first key belongs to the last layer.
Network network_of(const ServerCell& cell) {
  if (cell.network) return *cell.network;
  Network network;
  network.name = "keys";
  const std::size_t keys = cell.key_sizes.empty() ? static_cast<std::size_t>(cell.keys) : cell.key_sizes.size();
  for (std::size_t i = 0; i < keys; ++i) {
    const double elements =
        cell.key_sizes.empty() ? cell.gradient.value / 4 / cell.keys : cell.key_sizes[keys - 1 - i].value / 4;
    Layer& layer = network.layers.emplace_back();
    layer.name = fmt::format("layer {}", i);
    layer.parameters.push_back({"weight", std::max(1.0, elements)});
    BackwardKernel& backward = layer.backward.emplace_back();
    backward.name = "backward";
    backward.work.flops = Flops{cell.compute.value * kFlops / static_cast<double>(keys)};
    backward.work.precision = static_cast<std::uint8_t>(Precision::fp32);
    backward.gradients_ready = {0};
  }
  return network;
}

ServerPlan plan_of(const ServerCell& cell) {
  TrainingPlan workers = replica_plan(std::make_shared<const Network>(network_of(cell)), cell.workers);
  without_all_reduce(workers);
  workers.steps = cell.steps;
  workers.values = cell.values;
  workers.accumulation.bytes = Bytes{1e-300};
  StagePlan& stage = workers.stages.front();
  stage.buckets = gradient_buckets(*workers.network, workers.gradient_element, Bytes{1}, Bytes{1}, true);
  if (cell.gradient.value == 0 && cell.key_sizes.empty() && !cell.network)
    for (GradientBucket& key : stage.buckets) key.elements = 0;
  stage.optimizer.flops = Flops{cell.apply.value * kFlops};
  stage.optimizer.precision = static_cast<std::uint8_t>(Precision::fp32);
  ServerPlan plan = server_plan(std::move(workers), cell.servers, cell.sharding, Place::named("workers and servers"));
  if (!cell.pulls) plan.base.step.parameter_element = Bytes{0};
  if (cell.change) cell.change(plan);
  return plan;
}

std::vector<Straggler> stragglers_of(const ServerCell& cell) {
  Straggler constant;
  constant.factors = cell.slower;
  return {constant};
}

std::vector<PlacedMachine::PlacedActor> places_of(const ServerCell& cell, int actors) {
  std::vector<PlacedMachine::PlacedActor> places;
  for (Actor actor = 0; actor < actors; ++actor)
    places.push_back({cell.places.empty() ? actor : cell.places.at(static_cast<std::size_t>(actor)), ""});
  return places;
}

}  // namespace

ServerCellRun::ServerCellRun(const ServerCell& cell)
    : plan_(plan_of(cell)),
      failures_(cell.failures),
      cluster_(cell.cluster ? *cell.cluster : star_cluster(plan_.actors(), cell.link), SoftwareStack{}),
      placed_(cluster_, places_of(cell, plan_.actors())),
      machine_(placed_, stragglers_of(cell), cell.workers) {}

void ServerCellRun::run(const std::vector<Observer*>& observers) {
  board_ = std::make_unique<ServerBoard>(plan_.clients(), plan_.clients() - plan_.backup_workers, plan_.base.step.steps,
                                         plan_.keys());
  const PassTables tables(plan_.base.step, names_);
  const CentralNames words(names_);
  RunSetup setup{observers};
  for (const auto& [actor, failure_time] : failures_) setup.actor_changes.push_back({failure_time, actor, nullptr});
  end_ = run_programs(machine_, server_programs(plan_, tables, words, *board_), std::move(setup)).end;
}

}  // namespace trainyard
