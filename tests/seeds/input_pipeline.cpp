// FLEX-01: reading, copying, computing and all-reduce in a pipeline over many steps. The slowest stage sets the step
// time. If it is made faster, another stage becomes the slowest.
#include <fmt/format.h>

#include "sim/executor/simulation.hpp"
#include "sim/observers/traffic.hpp"
#include "strategies/collectives/collective.hpp"
#include "tests/seeds/transfers.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Sends one message per step, from a drive to its host or from a host to its GPU. A host `relays`: it sends what it
/// has received.
class FeedProgram : public Program {
 public:
  FeedProgram(std::vector<Actor> from_to, Bytes batch, int steps, bool relays)
      : peers_(std::move(from_to)), batch_(batch), steps_(relays ? 2 * steps : steps), relays_(relays) {}
  Pull next(const Op*& next_op, const Repeat*&) override {
    next_op = &op_;
    if (operations_ == steps_) return Pull::done;
    const bool sends = !relays_ || operations_ % 2 == 1;
    Op& op = op_ = Op{};
    op.kind = sends ? Kind::send : Kind::recv;
    op.stream = sends ? 1 : 0;
    op.message.bytes = sends ? batch_ : Bytes{0};
    op.message.slot = relays_ && sends ? 1 : 0;
    if (relays_ && sends) op.deps[0] = {static_cast<std::uint32_t>(operations_ / 2 + 1), 0};
    ++operations_;
    return Pull::op;
  }
  std::span<const Actor> slots() const override { return peers_; }
  int streams() const override { return 2; }

 private:
  std::vector<Actor> peers_;
  Bytes batch_;
  int steps_, operations_ = 0;
  bool relays_;
  Op op_;
};

/// One of two GPUs. In each step it receives a batch, computes and all-reduces, each on a stream of its own.
class WorkerProgram : public CoroutineProgram {
 public:
  WorkerProgram(Actor host, Actor other, GroupPlace place, Flops work, Bytes gradient, int steps)
      : CoroutineProgram({host, other}, 4), place_(place), work_(work), gradient_(gradient), steps_(steps) {}

 protected:
  Ops run() override {
    const Collective& ring = collectives(Operation::all_reduce).find("ring", seed_place());
    const std::vector<int> peers = ring.peers(place_);
    for (int step = 0; step < steps_; ++step) {
      Op batch;
      batch.kind = Kind::recv;
      co_yield out_.emit(batch);
      Op compute;
      compute.kind = Kind::compute;
      compute.stream = 1;
      compute.work.flops = work_;
      compute.work.precision = static_cast<std::uint8_t>(Precision::fp32);
      compute.deps[0] = out_.last_operation(0);
      co_yield out_.emit(compute);
      CollectiveCall call;
      call.send_stream = 2;
      call.recv_stream = 3;
      call.first_slot = 1;
      call.start = out_.last_operation(1);
      co_yield ring.run(Local(out_, place_, peers, call, gradient_), gradient_);
    }
  }

 private:
  GroupPlace place_;
  Flops work_;
  Bytes gradient_;
  int steps_;
  Emitter out_;
};

/// The end of all steps in s, and the shares of it in which drive, PCIe, GPU and adapter are busy.
struct InputTimes {
  double end = 0;
  std::map<std::string, double> busy;
};

InputTimes run_pipeline(const ClusterSpec& cluster, Bytes batch, Flops work, Bytes gradient, int steps) {
  ClusterMachine machine(cluster, SoftwareStack{});
  Simulation simulation(machine);
  Traffic traffic(machine.links());
  simulation.observe(traffic);
  for (Actor gpu = 0; gpu < 2; ++gpu)  // GPUs 0, 1; hosts 2, 3; drives 4, 5
    simulation.add(gpu, std::make_unique<WorkerProgram>(gpu + 2, 1 - gpu, GroupPlace{gpu, 2}, work, gradient, steps));
  for (Actor node = 0; node < 2; ++node)
    simulation.add(node + 2, std::make_unique<FeedProgram>(std::vector<Actor>{node + 4, node}, batch, steps, true));
  for (Actor node = 0; node < 2; ++node)
    simulation.add(node + 4, std::make_unique<FeedProgram>(std::vector<Actor>{node + 2}, batch, steps, false));
  const double end = simulation.run().end.value;
  std::map<std::string, double> busy = {
      {"compute",
       (machine.price({work, {}, 0, static_cast<std::uint8_t>(Precision::fp32)}, 0).duration.value) * steps / end}};
  for (std::size_t i = 0; i < machine.links().size(); ++i) {
    const Link& link = machine.links()[i];
    const double share = (traffic.on_link(static_cast<LinkId>(i)) / link.capacity).value / end;
    const char* stage = link.kind == "NVMe" ? "read" : link.kind == "HCA" ? "all-reduce" : "h2d";
    busy[stage] = std::max(busy[stage], share);
  }
  return {end, std::move(busy)};
}

SeedFigures flex_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const ClusterSpec cluster = cluster_of(1,
                                         fmt::format("interconnect: pcie\npcie: {{rate: {}, latency: 0 us}}\n"
                                                     "nvme: {{count: 1, read: {}, latency: 0 us, lanes: 16}}\n"
                                                     "hca: {{count: 1, rate: {}, latency: 0 us}}\n",
                                                     fields.text("pcie"), fields.text("drive"), fields.text("network")),
                                         2);
  const Bytes batch = fields.bytes("batch"), gradient = fields.bytes("gradient");
  const Flops work = cluster.node.gpu.peak[static_cast<std::size_t>(Precision::fp32)] * fields.seconds("compute");
  SeedFigures got;
  const auto measure = [&](const std::string& name, double gpu, double network) {
    ClusterSpec faster = cluster;
    for (FlopsPerSecond& peak : faster.node.gpu.peak) peak = peak * gpu;
    faster.node.hca_rate = faster.node.hca_rate * network;
    // The difference has only steps of the steady state: filling the pipeline takes equally long in both runs.
    const InputTimes few = run_pipeline(faster, batch, work, gradient, 20);
    const InputTimes many = run_pipeline(faster, batch, work, gradient, 220);
    got[name + " step_ms"] = (many.end - few.end) / 200 * 1e3;
    std::vector<std::string> busy_stages;  // busy except while the pipeline fills
    for (const auto& [stage, share] : many.busy)
      if (share > 0.97) busy_stages.push_back(stage);
    got[name + " bottleneck"] = fmt::format("{}", fmt::join(busy_stages, ", "));
  };
  measure("as_is", 1, 1);
  measure("2x_gpu", 2, 1);
  measure("2x_gpu_2x_net", 2, 2);
  return got;
}

const RegisterSeed pipeline_seeds[] = {{"FLEX-01", flex_01}};

}  // namespace
}  // namespace trainyard
