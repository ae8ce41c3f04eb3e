#pragma once
#include <string>

#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/reading/read_collective.hpp"

namespace trainyard::test {

/// Runs a collective of all GPUs with the algorithm and the settings that `text` chooses.
inline CollectiveRun run_chosen(const ClusterSpec& cluster, Operation operation, Bytes size,
                                const std::string& text = "{fidelity: modelled}", const NcclChoice& nccl = {}) {
  const Node document = parse_document(text, "how.yaml");
  const CollectiveChoice choice =
      read_collective(&document, "how", operation, cluster, cluster.gpus(), CollectiveUse::alone, 0, nullptr, nccl);
  CollectiveRunOptions o;
  o.ranks = cluster.gpus();
  o.operation = operation;
  o.algorithm = choice.algorithm->name;
  o.options.settings = choice.settings;
  o.options.size = size;
  return run_collective(cluster, o);
}

}  // namespace trainyard::test
