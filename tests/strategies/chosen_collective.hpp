#pragma once
#include <string>

#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/reading/read_collective.hpp"
#include "tests/collective_options.hpp"

namespace trainyard::test {

/// Runs a collective of all GPUs with the algorithm and the settings that `text` chooses.
inline CollectiveRun run_chosen(const ClusterSpec& cluster, Operation operation, Bytes size,
                                const std::string& text = "{fidelity: modelled}", const NcclChoice& nccl = {}) {
  const Node document = parse_document(text, "how.yaml");
  const CollectiveChoice choice =
      read_collective(&document, "how", operation, cluster, cluster.gpus(), CollectiveUse::alone, 0, nullptr, nccl);
  CollectiveRunOptions o = collective_options(operation, choice.algorithm->name, cluster.gpus(), size);
  o.options.settings = choice.settings;
  return run_collective(cluster, o);
}

}  // namespace trainyard::test
