#include "scenarios/src/studies/failures/fewer_replicas.hpp"

#include <fmt/format.h>

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

/// Returns the scenario with fewer asynchronous workers. Samples per worker and the placement of servers do not change.
Scenario with_workers(const Scenario& s, int workers) {
  Overrides fewer{{"plan.global_batch_size", fmt::format("{}", s.global_batch_size / s.plan.mesh.data * workers)},
                  {"plan.idle_devices", "allowed"},
                  {"faults.failures", "null"},
                  {"faults.checkpoint", "null"},
                  {"faults.restart", "null"}};
  const Node* section = s.document.find("plan")->find("data_parallel");
  const Node* servers = section ? section->find("servers") : nullptr;
  const Node* label = servers && servers->kind == Node::Kind::map ? servers->find("label") : servers;
  if (const std::size_t w = label ? label->scalar.find('W') : std::string::npos; w != std::string::npos)
    fewer.emplace_back(label == servers ? "plan.data_parallel.servers" : "plan.data_parallel.servers.label",
                       fmt::format("{}{}", workers, label->scalar.substr(w)));
  else
    fewer.emplace_back("plan.data_parallel.size", fmt::format("{}", workers));
  return read_again(s, fewer);
}

/// Returns the scenario with fewer replicas on the nodes that they need, without its failures. Throws UserError if they
/// do not fill whole nodes, or if nodes differ.
Scenario with_replicas(const Scenario& s, int replicas) {
  const std::int64_t nodes = std::int64_t{s.cluster.nodes} * replicas;
  if (nodes % s.plan.mesh.data != 0 || !s.cluster.others.empty())
    throw UserError("no whole nodes, or nodes that differ");
  Overrides fewer{{"cluster.nodes", fmt::format("{}", nodes / s.plan.mesh.data)},
                  {"faults.failures", "null"},
                  {"faults.checkpoint", "null"},
                  {"faults.restart", "null"}};
  const Node* section = s.document.find("plan")->find("data_parallel");
  if (section && section->kind == Node::Kind::scalar)
    fewer.emplace_back("plan.data_parallel", fmt::format("{}", replicas));
  if (section && section->find("size")) fewer.emplace_back("plan.data_parallel.size", fmt::format("{}", replicas));
  return read_again(s, fewer);
}

}  // namespace

Seconds FewerReplicas::operator()(int replicas) {
  const auto result = results_.find(replicas);
  return result != results_.end() ? result->second.time : results_.emplace(replicas, find(replicas)).first->second.time;
}

FewerReplicas::Step FewerReplicas::find(int replicas) {
  const Step scaled{step_ * scenario_.plan.mesh.data / replicas, false};
  if (scenario_.prescribed_step.exists() || simulated_ == kMostSimulated) return scaled;
  if (estimated_operations(plan(scenario_)) > kMostKept) return scaled;
  try {
    const bool workers = scenario_.plan.mechanism->goes_on_without_some();
    const Scenario fewer = workers ? with_workers(scenario_, replicas) : with_replicas(scenario_, replicas);
    if (fewer.plan.mesh.data != replicas) return scaled;
    ++simulated_;
    const Seconds step = simulate(fewer, {.critical_path = false}).step_time;  // time of a step of each worker
    return {workers ? step * scenario_.plan.mesh.data / replicas : step, true};
  } catch (const UserError&) {  // the plan does not run on that number of replicas
    return scaled;
  }
}

}  // namespace trainyard
