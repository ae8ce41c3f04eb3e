#include "tests/seeds/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/executor/simulation.hpp"
#include "sim/observers/traffic.hpp"
#include "sim/program.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Returns an actor's part of the messages. Each message has its own stream, so that all start at once.
std::unique_ptr<Program> transfer_program(Actor actor, const std::vector<Transfer>& transfers) {
  std::vector<Op> ops;
  std::vector<Actor> peers;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    if (transfer.from != actor && transfer.to != actor) continue;
    Op op;
    op.kind = transfer.from == actor ? Kind::send : Kind::recv;
    op.stream = static_cast<Stream>(ops.size());
    op.message.bytes = transfer.from == actor ? transfer.size : Bytes{0};
    op.message.slot = static_cast<std::uint16_t>(peers.size());
    op.message.tag = static_cast<Tag>(i);
    peers.push_back(transfer.from == actor ? transfer.to : transfer.from);
    ops.push_back(op);
  }
  return std::make_unique<ListProgram>(std::move(ops), std::move(peers), kMaxStreams);
}

}  // namespace

ClusterSpec cluster_of(int gpus, const std::string& links, int nodes, const std::string& fabric) {
  const std::string text = fmt::format(
      "gpu: {{count: {}, type: {{peak: {{fp32: 1 TFLOP/s}}, memory_bandwidth: 1 TB/s, memory_capacity: 1 TB, "
      "nvlink: 1 TB/s}}}}\n{}",
      gpus, links);
  const Catalog catalog;
  ClusterSpec spec;
  spec.nodes = nodes;
  spec.place.file = std::make_shared<const std::string>("wiring");
  spec.node = read_node(catalog.resolve("node", parse_document(text, "wiring")), catalog);
  spec.fabric = make_fabric("nonblocking");
  if (!fabric.empty()) read_fabric(spec, catalog.resolve("fabric", parse_document(fabric, "wiring")));
  return spec;
}

ClusterSpec hosts_of(int nodes, const std::string& hca, const std::string& fabric) {
  return cluster_of(1,
                    fmt::format("interconnect: pcie\npcie: {{rate: 1 TB/s, latency: 0 us}}\n"
                                "hca: {{count: 1, latency: 0 us, {}}}\n",
                                hca),
                    nodes, fabric);
}

TransferTimes run_transfers(const ClusterSpec& cluster, const std::vector<Transfer>& transfers) {
  ClusterMachine machine(cluster, SoftwareStack{});
  Simulation simulation(machine);
  Traffic traffic(machine.links());
  simulation.observe(traffic);
  Actor actors = cluster.gpus();
  for (const Transfer& transfer : transfers) actors = std::max({actors, transfer.from + 1, transfer.to + 1});
  for (Actor actor = 0; actor < actors; ++actor) simulation.add(actor, transfer_program(actor, transfers));
  const SimulationResult end = simulation.run();
  traffic.check(end.end);
  Seconds busy;
  for (std::size_t i = 0; i < machine.links().size(); ++i)
    if (machine.links()[i].kind == "CPU copies")
      busy += traffic.on_link(static_cast<LinkId>(i)) / machine.links()[i].capacity;
  return {end.end.value * 1e3, busy.value * 1e3};
}

double server_cell_ms(const ServerCell& cell) {
  ServerCellRun run(cell);
  run.run();
  return run.end().value * 1e3;
}

double transfer_ms(const ClusterSpec& cluster, const std::vector<Transfer>& transfers) {
  return run_transfers(cluster, transfers).ms;
}

}  // namespace trainyard
