// PS-*: a gradient aggregated on a GPU, on the CPU, or split; RDMA-*: paths into the network; IO-03, HOST-01:
// copies to the GPU and memory of the host; DIST-01, EDGE-01, PS-ETH: far and slow networks.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/collectives/collective_run.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/program.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/transfers.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Returns GPUs behind one PCIe switch, whose uplink leads to the CPU.
ClusterSpec switch_box(int gpus, const std::string& link, const std::string& pcie = "") {
  return cluster_of(gpus, fmt::format("interconnect: pcie\npcie: {{rate: {}, latency: 0 us, lanes_per_socket: 16, "
                                      "switches: [{{gpus: [0, 1, 2, 3]}}]{}}}\n",
                                      link, pcie));
}

double on_gpus_ms(const ClusterSpec& box, const std::string& algorithm, Bytes size) {
  return run_collective(box, test::collective_options(Operation::all_reduce, algorithm, box.gpus(), size)).time * 1e3;
}

/// Returns the time in ms of gather-broadcast with the CPU as its master. The CPU adds the gradients of the GPUs.
double on_cpu_ms(const ClusterSpec& box, Bytes size) {
  CollectiveRunOptions o = test::collective_options(Operation::all_reduce, "gather-broadcast", box.gpus() + 1, size);
  o.members = {host_of(box)};
  for (Actor gpu = 0; gpu < box.gpus(); ++gpu) o.members.push_back(gpu);
  return run_collective(box, o).time * 1e3;
}

SeedFigures ps_60(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("gradient");
  const ClusterSpec box = switch_box(4, fields.text("link"));
  return {{"per_transfer_ms", transfer_ms(box, {{1, 0, s}})},
          {"gather_ms", transfer_ms(box, {{1, 0, s}, {2, 0, s}, {3, 0, s}})},
          {"broadcast_ms", transfer_ms(box, {{0, 1, s}, {0, 2, s}, {0, 3, s}})},
          {"total_ms", on_gpus_ms(box, "gather-broadcast", s)}};
}

SeedFigures ps_80(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("gradient");
  const ClusterSpec box = switch_box(4, fields.text("link"));
  const Actor cpu = host_of(box);
  std::vector<Transfer> up, back;
  for (Actor gpu = 0; gpu < 4; ++gpu) {
    up.push_back({gpu, cpu, s});
    back.push_back({cpu, gpu, s});
  }
  return {{"to_cpu_ms", transfer_ms(box, up)}, {"back_ms", transfer_ms(box, back)}, {"total_ms", on_cpu_ms(box, s)}};
}

SeedFigures ps_15(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("gradient");
  const ClusterSpec box = switch_box(4, fields.text("link"));
  std::vector<Transfer> parts;  // each GPU sends a quarter to each of the others
  for (Actor from = 0; from < 4; ++from)
    for (Actor to = 0; to < 4; ++to)
      if (from != to) parts.push_back({from, to, s / 4});
  return {{"reduce_ms", transfer_ms(box, parts)},
          {"broadcast_ms", transfer_ms(box, parts)},
          {"total_ms", on_gpus_ms(box, "direct", s)}};
}

SeedFigures ps_hd(const Node& inputs) {
  Fields fields(inputs, "inputs");
  return {{"total_ms",
           on_gpus_ms(switch_box(4, fields.text("link"), ", duplex: half"), "direct", fields.bytes("gradient"))}};
}

SeedFigures ps_spread(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("gradient");
  const ClusterSpec box = switch_box(4, fields.text("link"));
  std::vector<std::pair<double, std::string>> times{{on_gpus_ms(box, "direct", s), "split"},
                                                    {on_gpus_ms(box, "gather-broadcast", s), "one GPU"},
                                                    {on_cpu_ms(box, s), "CPU"}};
  std::sort(times.begin(), times.end());
  return {{"ratio_worst_best", times.back().first / times.front().first},
          {"order", fmt::format("{}, {}, {}", times[0].second, times[1].second, times[2].second)}};
}

SeedFigures ps_eth(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("gradient");
  SeedFigures got;
  for (const Node& rate : fields.required_child("goodput").items) {
    const ClusterSpec servers =
        hosts_of(2, "transport: tcp, rate: " + rate.scalar, "{type: ethernet, switch_latency: 0 us}");
    got["one_way_ms " + rate.scalar] = transfer_ms(servers, {{host_of(servers, 0), host_of(servers, 1), s}});
  }
  return got;
}

/// Returns two nodes of one GPU each.
ClusterSpec pair_of_nodes(Fields& inputs, const std::string& hca, const std::string& cpu) {
  return cluster_of(1,
                    fmt::format("interconnect: pcie\npcie: {{rate: {}, latency: 0 us}}\n"
                                "hca: {{count: 1, rate: {}, latency: 0 us{}}}\ncpu: {{{}}}\nstaging_chunk: {}\n",
                                inputs.text("pcie"), inputs.text("network"), hca, cpu, inputs.text("staging_chunk")),
                    2);
}

SeedFigures rdma_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("size");
  const std::string cpu = "copy_rate: " + fields.text("copy_rate");
  const ClusterSpec rdma = pair_of_nodes(fields, "", cpu);
  const ClusterSpec tcp =
      pair_of_nodes(fields, fmt::format(", transport: tcp, copies: {}", fields.integer("copies_each_side", 0)), cpu);
  // RDMA and TCP are compared on a message from host memory to host memory.
  const std::vector<Transfer> message{{host_of(rdma, 0), host_of(rdma, 1), s}};
  const TransferTimes by_rdma = run_transfers(rdma, message), by_tcp = run_transfers(tcp, message);
  return {{"rdma_pipelined_ms", by_rdma.ms},
          {"tcp_store_and_forward_ms", by_tcp.ms},
          {"cpu_busy_rdma_ms", by_rdma.host_busy_ms},
          {"cpu_busy_tcp_ms", by_tcp.host_busy_ms},
          {"rdma_is_faster", by_rdma.ms < by_tcp.ms}};
}

SeedFigures rdma_02(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("size");
  const std::string cpu = "copy_rate: 10 GB/s";
  const TransferTimes direct = run_transfers(pair_of_nodes(fields, "", cpu), {{0, 1, s}});
  const TransferTimes staged = run_transfers(pair_of_nodes(fields, ", gpudirect: false", cpu), {{0, 1, s}});
  return {{"gpudirect_pipelined_ms", direct.ms},
          {"host_staged_serial_ms", staged.ms},
          {"cpu_ms", direct.host_busy_ms + staged.host_busy_ms}};
}

SeedFigures io_03(const Node& inputs) {
  Fields fields(inputs, "inputs");
  SeedFigures got;
  for (const double lanes : numbers_of(inputs, "lanes")) {
    const ClusterSpec box = cluster_of(1, fmt::format("interconnect: pcie\npcie: {{rate: {}, latency: 0 us, "
                                                      "lanes_per_socket: {}, device_lanes: {}}}\n",
                                                      fields.text("pcie_x16"), lanes, lanes));
    got[fmt::format("ms {}", lanes)] = transfer_ms(box, {{host_of(box), 0, fields.bytes("batch")}});
  }
  return got;
}

/// Lets a host hold model states, and then staged batches too.
SeedFigures host_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const ClusterSpec box =
      cluster_of(1, fmt::format("interconnect: pcie\npcie: {{rate: 16 GB/s, latency: 0 us}}\nhost_memory: {}\n",
                                fields.text("host_memory")));
  const Bytes states = fields.bytes("model_states"), batches = fields.bytes("staged_batches");
  Op hold_states, hold_batches;
  hold_states.memory.change = states.value;
  hold_batches.memory.change = batches.value;
  ClusterMachine machine(box, SoftwareStack{});
  Simulation simulation(machine);
  MemoryUse memory;
  simulation.observe(memory);
  simulation.add(0, std::make_unique<ListProgram>(std::vector<Op>{}));
  simulation.add(host_of(box), std::make_unique<ListProgram>(std::vector<Op>{hold_states, hold_batches}));
  simulation.run();
  const double peak = memory.peak(host_of(box)).value, most = box.node.host_memory.value;
  return {{"feasible", peak <= most}, {"short_GB", (peak - most) * 1e-9}};
}

SeedFigures dist_01(const Node& inputs) {
  SeedFigures got;
  for (const double km : numbers_of(inputs, "km")) {
    const auto hosts = static_cast<int>(number_of(inputs, "hosts"));
    const ClusterSpec far = hosts_of(hosts, "rate: 1 TB/s",
                                     fmt::format("{{type: nonblocking, switch_latency: 0 us, distance: {} km}}", km));
    CollectiveRunOptions o;
    o.ranks = hosts;
    o.options.size = Bytes{0};
    got[fmt::format("one_way_us {}", km)] = transfer_ms(far, {{0, 1, Bytes{0}}}) * 1e3;
    got[fmt::format("ring_ms {}", km)] = run_collective(far, o).time * 1e3;
  }
  return got;
}

/// Lets a client compute and then upload its gradient.
SeedFigures edge_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("size");
  const Seconds compute = fields.seconds("compute");
  const ClusterSpec clients = hosts_of(2, "rate: " + fields.text("uplink"));
  ClusterMachine machine(clients, SoftwareStack{});
  Simulation simulation(machine);
  Op work, upload, receive;
  work.kind = Kind::compute;
  work.work.flops = clients.node.gpu.peak[static_cast<std::size_t>(Precision::fp32)] * compute;
  work.work.precision = static_cast<std::uint8_t>(Precision::fp32);
  upload.kind = Kind::send;
  upload.message.bytes = s;
  receive.kind = Kind::recv;
  simulation.add(0, std::make_unique<ListProgram>(std::vector<Op>{work, upload}, std::vector<Actor>{1}));
  simulation.add(1, std::make_unique<ListProgram>(std::vector<Op>{receive}, std::vector<Actor>{0}));
  const double total = simulation.run().end.value;
  const double upload_s = transfer_ms(clients, {{0, 1, s}}) * 1e-3;
  return {{"upload_s", upload_s}, {"comm_share", upload_s / total}};
}

const RegisterSeed host_seeds[] = {{"PS-60", ps_60},     {"PS-80", ps_80},         {"PS-15", ps_15},
                                   {"PS-HD", ps_hd},     {"PS-SPREAD", ps_spread}, {"PS-ETH", ps_eth},
                                   {"RDMA-01", rdma_01}, {"IO-03", io_03},         {"RDMA-02", rdma_02},
                                   {"HOST-01", host_01}, {"DIST-01", dist_01},     {"EDGE-01", edge_01}};

}  // namespace
}  // namespace trainyard
