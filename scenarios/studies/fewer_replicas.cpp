#include "scenarios/studies/fewer_replicas.hpp"

#include <fmt/format.h>

#include "scenarios/planning/size.hpp"
#include "scenarios/running/simulate.hpp"

namespace trainyard {
namespace {

/// The scenario with so many replicas and the nodes that they take, without failures of its own. Throws UserError where
/// there is none.
Scenario with_replicas(const Scenario& s, int replicas) {
  const std::int64_t nodes = std::int64_t{s.cluster.nodes} * replicas;
  if (nodes % s.parallel.mesh.data != 0 || !s.cluster.others.empty())
    throw UserError("no whole nodes, or nodes that differ");
  Overrides fewer{{"cluster.nodes", fmt::format("{}", nodes / s.parallel.mesh.data)},
                  {"faults.failures", "null"},
                  {"faults.checkpoint", "null"},
                  {"faults.restart", "null"}};
  const Node* given = s.document.find("plan")->find("data_parallel");
  if (given && given->kind == Node::Kind::scalar) fewer.emplace_back("plan.data_parallel", fmt::format("{}", replicas));
  if (given && given->find("size")) fewer.emplace_back("plan.data_parallel.size", fmt::format("{}", replicas));
  return read_again(s, fewer);
}

}  // namespace

Seconds FewerReplicas::operator()(int replicas) {
  const auto known = asked_.find(replicas);
  return known != asked_.end() ? known->second.time : asked_.emplace(replicas, find(replicas)).first->second.time;
}

FewerReplicas::Step FewerReplicas::find(int replicas) {
  const Step whole{step_ * scenario_.parallel.mesh.data / replicas, false};
  if (scenario_.said_step.time.value > 0 || simulated_ == kMostSimulated) return whole;
  if (estimated_operations(scenario_) > kMostOfPath) return whole;
  try {
    const Scenario fewer = with_replicas(scenario_, replicas);
    if (fewer.parallel.mesh.data != replicas) return whole;
    ++simulated_;
    SimulateOptions options;
    options.critical_path = false;
    return {Seconds{simulate(fewer, options).step_time}, true};
  } catch (const UserError&) {  // this plan has no such step
    return whole;
  }
}

}  // namespace trainyard
