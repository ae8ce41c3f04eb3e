// The effects of a machine's links, adapters and networks on NCCL.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <vector>

#include "models/fitted/nccl_cost.hpp"
#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "strategies/collectives/library_model.hpp"
#include "tests/collective_options.hpp"
#include "tests/strategies/chosen_collective.hpp"

namespace strategies_test_nccl_machines {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ClusterSpec cluster_of(const std::string& text) {
  return read_cluster(parse_document(text, "machine.yaml"), Catalog());
}

std::string box(int gpus, const std::string& peer_to_peer, const std::string& more = "") {
  return "{nodes: 1, node: {gpu: {count: " + std::to_string(gpus) +
         ", type: rtx-4090}, interconnect: pcie, pcie: {generation: 4, latency: 0.25 us, lanes_per_socket: 128, "
         "device_lanes: 16, peer_to_peer: " +
         peer_to_peer + more + "}}}";
}

BytesPerSecond rate_on(const std::string& text, Operation operation = Operation::all_reduce) {
  const ClusterSpec cluster = cluster_of(text);
  return machine_rate(cluster, cluster.node.gpus, operation);
}

double seconds(const ClusterSpec& cluster, Operation operation, Bytes size) {
  return run_chosen(cluster, operation, size).time;
}

}  // namespace

TEST_CASE("in boxes with PCIe alone, peer to peer, host memory and shared uplinks set the rate",
          "[collectives][nccl]") {
  const double peers = rate_on(box(4, "socket")).value, host = rate_on(box(4, "none")).value;
  CHECK(peers == Approx(0.75 * 31.5e9).epsilon(0.01));
  CHECK(host == Approx(0.44 * 31.5e9).epsilon(0.01));
  // Two GPUs behind a switch send and receive over one uplink.
  const std::string shared = ", switches: [{socket: 0, gpus: [0, 1]}, {socket: 0, gpus: [2, 3]}]";
  CHECK(rate_on(box(4, "none", shared)).value == Approx(host / 2).epsilon(0.01));
  CHECK(rate_on(box(4, "socket", shared)).value == Approx(peers).epsilon(0.01));  // one of each pair uses the uplink
  CHECK(rate_on("{nodes: 1, node: dgx-h100}").value == 0);                        // only NVLink is used
  CHECK(rate_on("{nodes: 1, node: dgx-1v}").value == 0);
  CHECK(rate_on("{nodes: 1, node: dgx-1v}", Operation::all_to_all).value > 0);  // not all pairs of GPUs have NVLink
}

TEST_CASE("a mesh of eight chips is used by several rings", "[collectives][nccl]") {
  const ClusterSpec cluster = cluster_of("{nodes: 1, node: mi300x-8x}");
  const Bytes size{1e9};
  const double bus =
      nccl_bus_bandwidth(NcclOperation::all_reduce, size, 8, Seconds{seconds(cluster, Operation::all_reduce, size)})
          .value;
  CHECK(bus == Approx(316e9).epsilon(0.05));  // nccl-tests of several sources: 315 to 319 GB/s
}

TEST_CASE("a modelled collective alone takes the time of its cost model, simulated or not", "[collectives][nccl]") {
  for (const char* text : {"{nodes: 2, node: dgx-h100, fabric: nonblocking}", "{nodes: 1, node: dgx-1v}",
                           "{nodes: 3, node: l40s-8x, fabric: nonblocking}",
                           "{nodes: 4, node: dgx-a100, fabric: {type: folded-clos, switch_latency: 130 ns, levels: "
                           "[{down: 2, oversubscription: 4}, {down: 32}]}}"})
    for (const Operation operation :
         {Operation::all_reduce, Operation::all_gather, Operation::send_recv, Operation::gather, Operation::barrier}) {
      CAPTURE(text, name_of(operation));
      const ClusterSpec cluster = cluster_of(text);
      const Node document = parse_document("{fidelity: modelled}", "how.yaml");
      const CollectiveChoice choice =
          read_collective(&document, "how", operation, cluster, cluster.gpus(), CollectiveUse::alone);
      const ModelledTimes times(cluster, {}, operation, choice.settings, cluster.gpus());
      for (const double size : {0.0, 1e5, 3e8})
        CHECK(times.time(Bytes{size}).value == Approx(seconds(cluster, operation, Bytes{size})).epsilon(1e-9));
    }
}

TEST_CASE("on random machines modelled collectives are within bounds of flows of the same schedule",
          "[collectives][metamorphic]") {
  std::mt19937 random(11);
  const auto pick = [&random](std::initializer_list<int> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  for (int i = 0; i < 12; ++i) {
    const std::string text = fmt::format(
        "{{nodes: {}, node: {{base: dgx-a100, hca: {{count: 8, rate: {} Gbit/s}}}}, fabric: {{type: folded-clos, "
        "switch_latency: 130 ns, levels: [{{down: {}, oversubscription: {}}}, {{down: 32}}]}}}}",
        pick({2, 4}), pick({50, 100, 200}), pick({1, 2}), pick({1, 2, 4, 8}));
    const Operation operation = i % 3 == 0   ? Operation::all_reduce
                                : i % 3 == 1 ? Operation::all_gather
                                             : Operation::reduce_scatter;
    CAPTURE(text, name_of(operation));
    const ClusterSpec cluster = cluster_of(text);
    const Bytes size{1e9};
    CollectiveRunOptions o = collective_options(operation, "ring", cluster.gpus(), size);
    o.options.settings.fidelity = Fidelity::flows;
    o.options.settings.channels = 8;
    o.options.settings.per_node = 8;
    const double factor = seconds(cluster, operation, size) / run_collective(cluster, o).time;
    // Rings use 0.81 of a network. The trees of two nodes send the buffer over the wire once, a ring 1.875 times.
    CHECK(factor >= (operation == Operation::all_reduce ? 0.5 : 0.97));
    CHECK(factor <= 1.35);
  }
}

TEST_CASE("send and receive between nodes go over the adapter of one GPU", "[collectives][nccl]") {
  const ClusterSpec cluster = cluster_of("{nodes: 2, node: dgx-b200, fabric: nonblocking}");
  const double rate = 1e9 / seconds(cluster, Operation::send_recv, Bytes{1e9});
  CHECK(rate < 50e9);
  CHECK(rate > 30e9);  // measured: 36 GB/s
}

TEST_CASE("two nodes all-reduce faster than a ring could: trees send the buffer over the wire once",
          "[collectives][nccl]") {
  const ClusterSpec cluster = cluster_of("{nodes: 2, node: dgx-h100, fabric: nonblocking}");
  const NcclNode node = nccl_nodes(cluster).front();
  NcclCall call = node.call(NcclOperation::all_reduce, Bytes{4e9}, {16, 2, 8});
  const auto bus = [&] {
    return nccl_bus_bandwidth(call.operation, call.size, 16, nccl_cost(node.model(call), call).time).value;
  };
  CHECK(bus() > call.network.value);
  call.rings_only = true;
  CHECK(bus() < call.network.value);
}

TEST_CASE("LL gets a part of the rate of a group's only adapter, and Simple almost all of it", "[collectives][nccl]") {
  const ClusterSpec cluster = cluster_of("{nodes: 16, node: dgx-h100, fabric: nonblocking}");
  const NcclNode node = nccl_nodes(cluster).front();
  for (const NcclOperation operation : {NcclOperation::all_gather, NcclOperation::all_reduce}) {
    const auto cost = [&](double bytes) {
      NcclCall call = node.call(operation, Bytes{bytes}, {16, 16, 1});
      call.rings_only = true;
      return nccl_cost(node.model(call), call);
    };
    CHECK(std::string(cost(1e4).protocol) == "ring, LL");
    CHECK(std::string(cost(1e9).protocol) == "ring, Simple");
    CHECK(cost(1e9).rate.value == Approx(0.955 * 50e9));
  }
}

TEST_CASE("faster links never make a collective of NCCL's model slower", "[collectives][nccl][metamorphic]") {
  struct Faster {
    const char* node;
    const char* key;
    std::vector<double> rates;  // GB/s
  };
  const std::vector<Faster> cases{
      {"dgx-1v", "pcie: {{rate: {} GB/s}}", {8, 15.8, 24, 25, 26, 50, 100, 400}},
      {"dgx-1v", "nvlink: {{link_rate: {} GB/s}}", {5, 10, 20, 25, 30, 50, 100}},
      {"dgx-1v", "hca: {{rate: {} GB/s}}", {1, 6, 12.5, 25, 50, 100}},
      {"dgx-a100", "pcie: {{rate: {} GB/s}}", {8, 16, 31, 64, 200, 400, 800}},
      {"dgx-a100", "gpu: {{nvlink: {} GB/s}}", {100, 200, 299, 300, 301, 400, 600, 900}},
      {"dgx-a100", "hca: {{rate: {} GB/s}}", {6, 12, 25, 50, 100}},
      {"dgx-h100", "pcie: {{rate: {} GB/s}}", {8, 16, 31, 64, 200, 600}},
      {"dgx-h100", "gpu: {{nvlink: {} GB/s}}", {200, 300, 449, 450, 451, 600, 900}},
      {"dgx-h100", "hca: {{rate: {} GB/s}}", {6, 12, 25, 50, 100, 200}},
      {"dgx-b200", "gpu: {{nvlink: {} GB/s}}", {300, 450, 899, 900, 901, 1800}},
      {"h100-nvl-8x", "pcie: {{rate: {} GB/s}}", {8, 31, 63, 128, 300, 600}},
      {"h100-nvl-8x", "nvlink: {{link_rate: {} GB/s}}", {5, 12.5, 24.9, 25, 25.1, 50, 100}},
      {"l40s-8x", "pcie: {{rate: {} GB/s}}", {8, 16, 31, 64, 128}},
      {"l40s-8x", "hca: {{rate: {} GB/s}}", {3, 12, 25, 50, 100}},
      {"mi300x-8x", "pcie: {{rate: {} GB/s}}", {8, 31, 63, 128, 300}},
      {"mi300x-8x", "hca: {{rate: {} GB/s}}", {6, 12, 25, 50, 100}},
      {"rtx-5090-4x", "pcie: {{rate: {} GB/s}}", {8, 16, 31, 64, 128}},
  };
  for (const Faster& c : cases)
    for (const int nodes : {1, 2, 3}) {
      std::map<std::pair<int, double>, Seconds> before;
      for (const double rate : c.rates) {
        const std::string text =
            fmt::format("{{nodes: {}, node: {{base: {}, {}}}{}}}", nodes, c.node,
                        fmt::format(fmt::runtime(c.key), rate), nodes > 1 ? ", fabric: nonblocking" : "");
        CAPTURE(text);
        const ClusterSpec cluster = cluster_of(text);
        const int local = cluster.node.gpus;
        const NcclNode node = nccl_nodes(cluster).front();
        for (int o = 0; o < kNcclOperations; ++o)
          for (const double bytes : {1e3, 3e4, 1e6, 3e7, 1e9}) {
            const auto operation = static_cast<NcclOperation>(o);
            CAPTURE(name_of(operation), bytes);
            const NcclCall call = node.call(operation, Bytes{bytes}, {local * nodes, nodes, local});
            const NcclCost cost = nccl_cost(node.model(call), call);
            const auto [entry, first] = before.try_emplace({o, bytes}, cost.time);
            CAPTURE(cost.protocol);
            CHECK(cost.time.value <= entry->second.value * (1 + 1e-9));
            entry->second = cost.time;
          }
      }
    }
}

TEST_CASE("no wire carries more than its rate, whatever the machine", "[collectives][nccl][metamorphic]") {
  std::mt19937 random(7);
  const auto pick = [&random](std::initializer_list<int> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  for (int i = 0; i < 60; ++i) {
    const int nodes = pick({2, 3, 4, 8, 16}), hcas = pick({1, 2, 4, 8, 16, 32}), rate = pick({10, 25, 100, 400});
    const std::string text =
        fmt::format("{{nodes: {}, node: {{base: {}, hca: {{count: {}, rate: {} Gbit/s}}}}, fabric: nonblocking}}",
                    nodes, i % 2 == 0 ? "dgx-h100" : "dgx-a100", hcas, rate);
    CAPTURE(text);
    const ClusterSpec cluster = cluster_of(text);
    const NcclNode node = nccl_nodes(cluster).front();
    for (int o = 0; o < kNcclOperations; ++o) {
      const auto operation = static_cast<NcclOperation>(o);
      const int local = pick({1, 2, 4, 8});
      CAPTURE(local);
      NcclCall call = node.call(operation, Bytes{1e9}, {local * nodes, nodes, local});
      const Seconds time = nccl_cost(node.model(call), call).time;
      Bytes leaving = call.size;  // lower bound of the bytes that leave a node
      if (operation == NcclOperation::all_gather || operation == NcclOperation::reduce_scatter)
        leaving = nccl_wire(operation, call.size, call.gpus);
      if (operation == NcclOperation::alltoall)
        leaving = call.size * (static_cast<double>(local) * (nodes - 1) / nodes);
      if (operation == NcclOperation::gather || operation == NcclOperation::scatter)
        leaving = call.size * ((nodes - 1.0) / nodes);
      CHECK(leaving / time <= call.network);
      // More bytes never take less time.
      call.size = Bytes{1.1e9};
      CHECK(nccl_cost(node.model(call), call).time >= time);
    }
  }
}

}  // namespace strategies_test_nccl_machines
