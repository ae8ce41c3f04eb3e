#include "scenarios/src/post_training/weight_transfer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/reading/document.hpp"
#include "scenarios/src/collectives/collective_run.hpp"
#include "strategies/failures/checkpoint_transfer.hpp"

namespace trainyard {
namespace {

/// Number of buckets that a chain of nodes passes on one after another.
constexpr double kBuckets = 64;

/// Simulates a collective of `size` bytes in all groups at once.
Seconds collective_time(const ClusterSpec& cluster, Operation operation, const char* algorithm, Bytes size,
                        const std::vector<std::vector<Actor>>& groups) {
  CollectiveRunOptions options;
  options.operation = operation;
  options.algorithm = algorithm;
  options.ranks = static_cast<int>(groups.front().size());
  options.groups = groups;
  options.options.size = size;
  options.options.settings.fidelity = operation == Operation::broadcast ? Fidelity::messages : Fidelity::flows;
  options.options.settings.chunk = size / kBuckets;
  return options.ranks > 1 ? Seconds{run_collective(cluster, options).time} : Seconds{};
}

/// Simulates a collective of all `nodes` first nodes. Each GPU takes an equal share of `size` bytes, and exchanges it with
/// the GPUs in its place on the other nodes.
Seconds time_between_nodes(ClusterSpec cluster, int nodes, Operation operation, const char* algorithm, Bytes size) {
  if (nodes < 2 || cluster.node.hcas == 0) return {};
  cluster.nodes = nodes;
  const int gpus = cluster.node.gpus;
  std::vector<std::vector<Actor>> groups(static_cast<std::size_t>(gpus));
  for (int node = 0; node < nodes; ++node)
    for (int gpu = 0; gpu < gpus; ++gpu) groups[static_cast<std::size_t>(gpu)].push_back(node * gpus + gpu);
  return collective_time(cluster, operation, algorithm, size / gpus, groups);
}

/// Simulates what the links of the machine take at least, s. Tensors pass three steps, one behind the other, so that the
/// slowest one counts: the nodes that hold parts of the policy gather them; one of these nodes sends them through the
/// nodes that only generate, each GPU its share over the adapter that it uses; and the GPUs of a node gather the shares.
Seconds simulated_transfer(const PostTrainingChoice& choice, const PostTrainingResult& r) {
  ClusterSpec cluster = choice.generators;
  const int gpus = cluster.node.gpus, holding_nodes = (r.policy_ranks + gpus - 1) / gpus;
  Seconds longest = time_between_nodes(cluster, holding_nodes, Operation::all_gather, "ring", r.sent);
  longest = std::max(longest, time_between_nodes(cluster, choice.nodes + 1, Operation::broadcast, "chain", r.sent));
  cluster.nodes = 1;
  std::vector<Actor> node;
  for (int gpu = 0; gpu < gpus; ++gpu) node.push_back(gpu);
  return std::max(longest, collective_time(cluster, Operation::all_gather, "ring", r.sent, {node}));
}

/// Writes the weights to the store and reads them.
void pass_through_store(const PostTrainingChoice& choice, PostTrainingResult& r) {
  const Storage& store = *choice.weight_store;
  ClusterSpec writers = choice.generators;
  const int of_node = writers.node.gpus;
  writers.nodes = (r.policy_ranks + of_node - 1) / of_node;
  CheckpointPlan written{{}, store}, read{{}, store};
  for (Actor rank = 0; rank < r.policy_ranks; ++rank) written.shares.push_back({rank, r.sent / r.policy_ranks});
  // A node whose engines have all layers reads all weights once; one of the nodes of an engine reads its part.
  const int sharing = std::max(of_node, choice.layout.gpus());
  for (Actor rank = 0; rank < choice.generators.gpus(); ++rank) read.shares.push_back({rank, r.sent / sharing});
  const SoftwareStack plain;
  try {
    r.store_write = simulate_checkpoint_write(writers, plain, written).write;
    r.store_read = simulate_checkpoint_load(choice.generators, plain, read);
  } catch (const UserError& e) {
    fail(choice.weight_store_place, fmt::format("post_training.weights_storage: {}", e.what()));
  }
}

}  // namespace

bool sends_narrow_weights(const PostTrainingChoice& choice) {
  return !choice.transfers.empty() &&
         std::ranges::all_of(choice.transfers, [](const WeightTransfer& transfer) { return transfer.quantized; });
}

Seconds library_transfer(const PostTrainingChoice& choice, const NetworkEntry& model, Bytes sent, Seconds network) {
  const PublishedTensors tensors = published_tensors(model);
  const int gpus = choice.generators.gpus(), apart_gpus = choice.own_gpus();
  if (choice.transfers.size() == 1) return choice.transfers.front().time(sent, tensors, gpus, network);
  return std::max(choice.transfers.front().time(sent, tensors, apart_gpus, network),
                  choice.transfers.back().time(sent, tensors, gpus - apart_gpus, network));
}

void transfer_weights(const PostTrainingChoice& choice, const NetworkEntry& model, PostTrainingResult& r) {
  if (choice.weight_store) {
    pass_through_store(choice, r);
    r.weights = r.store_write + r.store_read;
    return;
  }
  r.weights_network = simulated_transfer(choice, r);
  r.weights = library_transfer(choice, model, r.sent, r.weights_network);
}

}  // namespace trainyard
