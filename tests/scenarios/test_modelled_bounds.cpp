// Modelled collectives are compared with flows of an algorithm on the same links. At these large sizes latencies hardly
// matter.
#include <catch2/catch.hpp>

#include <random>

#include "scenarios/src/reading/read_cluster.hpp"
#include "tests/strategies/chosen_collective.hpp"

namespace scenarios_test_modelled_bounds {

using namespace trainyard;

namespace {

/// Bounds of the time of the model divided by the time of flows.
struct Bounds {
  double least_all_reduce = 0;  ///< the other collectives have kLatencies
  double most = 0;              ///< for all collectives but the all-to-all
  double most_all_to_all = 0;
};
/// A machine, with the algorithm of its flows. `text` is the cluster; `rings` is the number of adapters of a node.
struct BoundedMachine {
  const char* text;
  const char* algorithm;  ///< the algorithm of all-reduce, all-gather and reduce-scatter
  int rings;
  Bounds bounds;
};

/// Flows pay a latency in each step, the model pays one in all. At these sizes that is below 2 % of the time.
constexpr double kLatencies = 0.98;

/// NCCL reaches 0.67 to 0.75 of the links' rate over NVSwitch in nccl-tests (models/fitted), and 0.57 in an NVL72. An
/// all-reduce in the switch (NVLS) moves (n+1)/n of the data; a ring moves 2 (n−1)/n, nearly twice as much.
constexpr Bounds kNvSwitch{0.5, 1.8, 1.8};
/// Rings over NVLinks reach the same share of the links' rate. In an all-to-all, pairs without an NVLink use PCIe and,
/// between the sockets, host memory: they reach 0.44 of the lanes' rate.
constexpr Bounds kMesh{kLatencies, 1.8, 2.3};
/// NCCL reaches 0.75 of the rate of a GPU's lanes from peer to peer, and 0.44 through host memory
/// (strategies/collectives/library_model.cpp).
constexpr Bounds kPcie{kLatencies, 2.3, 2.3};
/// NCCL reaches 0.96 of the rate of all HCAs by rings, 0.73 by pairs (models/catalog/nccl-networks/infiniband.yaml);
/// inside a node the node's bounds hold. Trees over two nodes send an all-reduce's size once; a ring sends nearly twice
/// that.
constexpr Bounds kBetweenNodes{0.85, 1.5, 1.4};
/// Messages through host memory inside the nodes reach 0.44 of the rate of the lanes.
constexpr Bounds kBetweenPcie{kLatencies, 2.3, 1.4};
/// If uplinks are the narrowest links, the model takes the time of the flows over them.
constexpr Bounds kOversubscribed{kLatencies, 1.2, 1.02};

constexpr BoundedMachine kMachines[] = {
    {"{nodes: 1, node: dgx-a100}", "ring", 1, kNvSwitch},
    {"{nodes: 1, node: dgx-h100}", "ring", 1, kNvSwitch},
    {"{nodes: 1, node: dgx-2}", "ring", 1, kNvSwitch},
    {"{nodes: 1, node: dgx-b200}", "ring", 1, kNvSwitch},
    {"{nodes: 1, node: dgx-1v}", "bidirectional-multi-ring", 1, kMesh},
    {"{nodes: 1, node: dgx-1p}", "bidirectional-multi-ring", 1, kMesh},
    {"{nodes: 1, node: pcie-4}", "ring", 1, kPcie},
    {"{nodes: 1, node: pcie-8}", "ring", 1, kPcie},
    {"{nodes: 1, node: l40s-8x}", "ring", 1, kPcie},
    {"{nodes: 2, node: dgx-h100, fabric: nonblocking}", "ring", 8, kBetweenNodes},
    {"{nodes: 4, node: dgx-a100, fabric: rail-optimized}", "ring", 8, kBetweenNodes},
    {"{nodes: 2, node: mi300x-8x, fabric: nonblocking}", "ring", 8, kBetweenNodes},
    {"{nodes: 4, node: el-capitan, fabric: nonblocking}", "ring", 4, kBetweenNodes},
    {"{nodes: 2, node: l40s-8x, fabric: leaf-spine}", "ring", 8, kBetweenPcie},
    {"{nodes: 4, node: t4-server, fabric: nonblocking}", "ring", 4, kBetweenNodes},
    {"{nodes: 4, node: dgx-h100, fabric: {type: folded-clos, switch_latency: 130 ns, levels: [{down: 2, "
     "oversubscription: 8}, {down: 32}]}}",
     "ring", 8, kOversubscribed},
    {"{nodes: 4, node: dgx-a100, fabric: {type: folded-clos, switch_latency: 130 ns, levels: [{down: 2, "
     "oversubscription: 4}, {down: 32}]}}",
     "ring", 8, kOversubscribed},
    {"{nodes: 4, node: t4-server, fabric: {type: folded-clos, switch_latency: 130 ns, levels: [{down: 1, "
     "oversubscription: 8}, {down: 32}]}}",
     "ring", 4, kOversubscribed},
};

void check(const BoundedMachine& machine, Operation operation, Bytes size) {
  CAPTURE(machine.text, name_of(operation), size.value);
  const ClusterSpec cluster = read_cluster(parse_document(machine.text, "machine.yaml"), Catalog());
  const bool is_all_to_all = operation == Operation::all_to_all;
  std::string flows = std::string("{fidelity: flows, algorithm: ") + (is_all_to_all ? "direct" : machine.algorithm);
  if (!is_all_to_all && machine.rings > 1) flows += ", channels: " + std::to_string(machine.rings);
  const double factor =
      test::run_chosen(cluster, operation, size).time / test::run_chosen(cluster, operation, size, flows + "}").time;
  CHECK(factor >= (operation == Operation::all_reduce ? machine.bounds.least_all_reduce : kLatencies));
  CHECK(factor <= (is_all_to_all ? machine.bounds.most_all_to_all : machine.bounds.most));
}

constexpr Operation kChecked[] = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                  Operation::all_to_all};

}  // namespace

TEST_CASE("a modelled collective is as fast as the links of its machine allow", "[collectives][metamorphic]") {
  int next = 0;
  for (const BoundedMachine& machine : kMachines) check(machine, kChecked[next++ % std::size(kChecked)], Bytes{1e9});
}

TEST_CASE("a modelled collective of random size is as fast as the links of its machine allow", "[metamorphic][.deep]") {
  std::mt19937 random(17);
  for (const BoundedMachine& machine : kMachines)
    for (const Operation operation : kChecked)
      for (int i = 0; i < 3; ++i)  // sizes of 0.5 to 8 GB
        check(machine, operation, Bytes{5e8 * (1 + static_cast<double>(random() % 1500) / 100)});
}

}  // namespace scenarios_test_modelled_bounds
