#pragma once
#include <catch2/catch.hpp>
#include <vector>

#include "scenarios/src/studies/fleet/queue.hpp"

namespace trainyard::test {

inline QueueSize size_of(int nodes, double step) {
  QueueSize size;
  size.nodes = nodes;
  size.step.value = step;
  return size;
}

/// Runs a queue of trainings with one arrival each. Checks that the node-seconds sum to those of the cluster.
inline QueueResult run(QueueRules rules, const std::vector<std::vector<QueueSize>>& sizes,
                       const std::vector<QueueArrival>& arrivals) {
  if (rules.horizon.value <= 0) rules.horizon.value = 1000;
  const QueueResult result = run_queue(rules, sizes, arrivals);
  double sum = result.idle + result.spare + result.repair;
  for (const QueueOutcome& outcome : result.outcomes) {
    sum += outcome.node_seconds.on_nodes();
    CHECK(outcome.node_seconds.waiting == 0);
  }
  CHECK(sum == Approx(rules.nodes * rules.horizon.value));
  return result;
}

/// Parts of a node that fail: all take it to repair.
inline QueueSize failing(QueueSize size, double mtbf, double repair) {
  FailingParts nodes;
  nodes.name = "node";
  nodes.count = size.nodes;
  nodes.mtbf.value = mtbf;
  nodes.takes_node = true;
  size.parts = {nodes};
  size.recovery.repair = Seconds{repair};
  return size;
}

}  // namespace trainyard::test
