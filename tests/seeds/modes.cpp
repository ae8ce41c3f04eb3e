// FRM-01, MODE-EQ, TPU-01: messages and sums of the modes of frameworks. PTDP-01, CENTRAL-01: exchanges by a master GPU
// and by the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/observers/traffic.hpp"
#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"
#include "strategies/step/pass_table.hpp"
#include "tests/seeds/scenario_trace.hpp"
#include "tests/seeds/transfers.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Returns a small network on two boxes of four GPUs, or two hosts of four TPUs. TPUs sum round a ring too, in place of
/// all dimensions of their torus.
Scenario mode_scenario(const std::string& mode, int ranks, const Overrides& more = {}) {
  const bool tpus = mode == "tf-tpu";
  const std::string text = fmt::format(
      "cluster: {{nodes: 2, {}}}\n"
      "model: {{mlp: {{widths: [64, 96, 10]}}}}\n"
      "plan: {{strategy: {}, idle_devices: allowed, micro_batch_size: 8, precision: {}, collectives: messages, "
      "data_parallel: {{size: {}, "
      "bucket: 4096 B{}}}}}\n",
      tpus ? "node: tpu-v3-host, fabric: tpu-v3-torus"
           : "node: {base: pcie-4, hca: {count: 1, rate: 100 Gbit/s, latency: 1 us}}, fabric: nonblocking",
      mode, tpus ? "bf16" : "fp32", ranks,
      tpus                            ? ", all_reduce: ring"
      : mode == "tf-parameter-server" ? ", servers: {keys: buckets}"
                                      : "");
  return read_scenario_text(text, "mode.yaml", more);
}

/// Messages of one step, and whether they overlap with computing.
struct ModeTrace {
  MessageTrace::Messages messages;
  bool overlaps = false;
  double seconds = 0;
};

ModeTrace trace_of(const Scenario& s) {
  MessageTrace trace;
  const double seconds = run_step(s, {&trace});
  return {trace.messages(), trace.overlaps(), seconds};
}

/// Returns the device at one end of every message ("CPU" or "first GPU"); else "ring", "mixed" or "none".
std::string exchange_kind(const ModeTrace& trace, int ranks) {
  bool first_gpu = true, cpu = true;
  std::map<Actor, std::set<Actor>> peers;
  for (const auto& [from, to, bytes] : trace.messages) {
    first_gpu &= from == 0 || to == 0;
    cpu &= from >= ranks || to >= ranks;
    peers[from].insert(to);
  }
  if (trace.messages.empty()) return "none";
  if (cpu) return "CPU";
  if (first_gpu) return "first GPU";
  const bool has_one_peer_each =
      std::all_of(peers.begin(), peers.end(), [](const auto& p) { return p.second.size() == 1; });
  return has_one_peer_each && static_cast<int>(peers.size()) == ranks ? "ring" : "mixed";
}

bool mode_refused(const std::string& mode, int ranks) {
  try {
    mode_scenario(mode, ranks);
    return false;
  } catch (const UserError&) {
    return true;
  }
}

SeedFigures frm_01(const Node& inputs) {
  SeedFigures got;
  for (const std::string& mode : words_of(inputs, "modes"))
    got["way " + mode] = exchange_kind(trace_of(mode_scenario(mode, 4)), 4);
  const Overrides bare{{"software", "plain"}};
  const auto same_messages = [&bare](const char* a, const char* b, int ranks) {
    return trace_of(mode_scenario(a, ranks, bare)).messages == trace_of(mode_scenario(b, ranks, bare)).messages;
  };
  // Horovod's coordinator wakes every 5 ms. Messages overlap only if the first layer's backward pass takes longer.
  const Overrides longer{{"model.mlp.widths", "[4096, 4096, 10]"},
                         {"plan.micro_batch_size", "16384"},
                         {"plan.data_parallel.bucket", "100 kB"}};
  got["horovod overlaps"] = trace_of(mode_scenario("horovod", 4, longer)).overlaps;
  got["DDP on one node is MirroredStrategy"] = same_messages("pytorch-ddp", "tf-mirrored", 4);
  got["DDP on two nodes is MultiWorkerMirroredStrategy"] = same_messages("pytorch-ddp", "tf-multi-worker-mirrored", 8);
  for (const std::string& mode : words_of(inputs, "one_node"))
    got["refused on two nodes " + mode] = mode_refused(mode, 8);
  return got;
}

/// Gives all ranks gradients and parameters that are whole numbers. Sums of them are equal in any order.
class WholeNumbers {
 public:
  WholeNumbers(const Scenario& s, Actor center, bool central)
      : scenario_(s), buckets_(plan(s).training.stages.front().buckets), center_(center), central_(central) {}

  void attach(Values& values) {
    values_ = &values;
    const auto set_call = [&values](TrainingCall call, auto function) {
      values.on_call(static_cast<std::uint16_t>(call),
                     [function](Actor actor, const Op& op) { function(actor, op.effect.read.buffer); });
    };
    const auto ignore = [](Actor, const Op&) {};
    for (const auto call :
         {TrainingCall::forward, TrainingCall::backward, TrainingCall::keep_gradients, TrainingCall::take_parameters})
      values.on_call(static_cast<std::uint16_t>(call), ignore);
    for (const auto call : {CentralCall::fill_output, CentralCall::loss})
      values.on_call(static_cast<std::uint16_t>(call), [this](Actor actor, const Op&) {
        const int outputs = actor == center_ ? scenario_.ranks() : 1;
        values_->buffer(actor, number_of({TrainingBuffer::Kind::outputs})).setZero(outputs);
        values_->buffer(actor, number_of({TrainingBuffer::Kind::output_gradients})).setZero(outputs);
      });
    set_call(TrainingCall::fill_bucket, [this](Actor actor, std::uint16_t bucket) {
      Eigen::VectorXd& buffer = values_->buffer(actor, bucket);
      buffer.resize(elements(bucket));
      for (Eigen::Index i = 0; i < buffer.size(); ++i)
        buffer[i] = static_cast<double>((actor + 1) * (i % 97) - 5 * bucket);
    });
    set_call(TrainingCall::fill_parameters, [this](Actor actor, std::uint16_t bucket) {
      values_->buffer(actor, number_of({TrainingBuffer::Kind::parameters, bucket})) = initial_values(bucket);
    });
    set_call(TrainingCall::update, [this](Actor actor, std::uint16_t) {
      if (central_ && actor != center_) return;
      std::vector<double> all;
      for (std::size_t b = 0; b < buckets_.size(); ++b) {
        const Eigen::VectorXd after =
            initial_values(static_cast<std::uint16_t>(b)) - values_->buffer(actor, static_cast<std::uint16_t>(b));
        all.insert(all.end(), after.begin(), after.end());
      }
      updated.push_back(all);
    });
    if (center_ == scenario_.ranks()) attach_server(values);
  }

  std::vector<std::vector<double>> updated;  ///< updated parameters of each actor that updates

 private:
  const Scenario& scenario_;
  std::vector<GradientBucket> buckets_;
  Actor center_;
  bool central_;
  Values* values_ = nullptr;

  /// Lets a server add and update key by key.
  void attach_server(Values& values) {
    const auto keys = static_cast<std::uint16_t>(buckets_.size());
    for (std::uint16_t key = 0; key < keys; ++key)
      values.buffer(center_, number_of({TrainingBuffer::Kind::parameters, key})) = initial_values(key);
    sums_.resize(keys);
    const auto add = [this](Actor actor, const Op& op) {
      Eigen::VectorXd& sum = sums_[op.effect.write.buffer];
      if (sum.size() == 0) sum = Eigen::VectorXd::Zero(elements(op.effect.write.buffer));
      sum += values_->buffer(actor, op.effect.read.buffer);
    };
    for (const ServerCall call : {ServerCall::first, ServerCall::add})
      values.on_call(static_cast<std::uint16_t>(call), add);
    values.on_call(static_cast<std::uint16_t>(ServerCall::update), [this, keys](Actor, const Op&) {
      if (++updates_ < keys) return;
      std::vector<double> all;
      for (std::uint16_t key = 0; key < keys; ++key) {
        const Eigen::VectorXd after = initial_values(key) - sums_[key];
        all.insert(all.end(), after.begin(), after.end());
      }
      updated.push_back(all);
    });
  }

  std::vector<Eigen::VectorXd> sums_;  // by key
  int updates_ = 0;

  Eigen::Index elements(std::uint16_t bucket) const { return static_cast<Eigen::Index>(buckets_[bucket].elements); }
  Eigen::VectorXd initial_values(std::uint16_t bucket) const {
    return Eigen::VectorXd::LinSpaced(elements(bucket), 0, static_cast<double>(elements(bucket) - 1));
  }
};

SeedFigures mode_eq(const Node& inputs) {
  std::vector<double> reference;
  std::set<double> times;
  bool identical = true;
  for (const std::string& mode : words_of(inputs, "modes")) {
    Overrides bare{{"software", "plain"}};
    if (mode == "tf-parameter-server") {
      bare.emplace_back("plan.data_parallel.servers", "{nodes: [1], keys: buckets}");
      bare.emplace_back("plan.data_parallel.consistency", "synchronous");
    }
    const Scenario s = mode_scenario(mode, 4, bare);
    times.insert(trace_of(s).seconds);
    const std::string& mechanism = s.plan.mechanism_name;
    const bool central = mechanism != kAllReduce;
    Actor center = 0;
    if (mechanism == "central-storage") {
      const ClusterMachine machine(s.cluster, s.software);
      center = machine.actor(machine.graph().devices_of_kind(DeviceKind::cpu, 0).front());
    }
    if (mechanism == "parameter-server") center = s.ranks();
    WholeNumbers numbers(s, center, central);
    Values values;
    numbers.attach(values);
    run_step(s, {&values}, true);
    const std::vector<std::vector<double>>& updated = numbers.updated;
    if (reference.empty()) reference = updated.at(0);
    identical &=
        !updated.empty() && std::all_of(updated.begin(), updated.end(), [&](const auto& u) { return u == reference; });
  }
  return {{"identical_updates", identical}, {"times_differ", times.size() > 1}, {"different_times", times.size()}};
}

/// Compares one strategy on GPUs and on TPUs. With the same links only the times differ. TPUStrategy on a TPU pod sends
/// the messages of MirroredStrategy if both sum round a ring.
SeedFigures tpu_01(const Node& inputs) {
  std::vector<std::string> schedules;
  std::vector<double> times;
  for (const std::string& chip : words_of(inputs, "device")) {
    const Scenario s = read_scenario_text(
        fmt::format("cluster: {{node: {{base: pcie-4, gpu: {{type: {}}}}}}}\nmodel: {{base: gpt2, n_layer: 2}}\n"
                    "plan: {{precision: bf16, seq_length: 128, global_batch_size: 16, micro_batch_size: 2, "
                    "collectives: messages}}\n"
                    "software: pytorch-ddp\n",
                    chip),
        "chips.yaml");
    std::string& all = schedules.emplace_back();
    for (int rank = 0; rank < s.ranks(); ++rank) all += to_json(schedule(plan(s), rank, 1000000)).dump();
    times.push_back(simulate(s).step_time.value);
  }
  // Both formats have 16 bits: GPUs use fp16, TPUs bf16.
  const ModeTrace gpus = trace_of(mode_scenario("tf-mirrored", 4, {{"plan.precision", "fp16"}}));
  const ModeTrace tpus = trace_of(mode_scenario("tf-tpu", 4));
  return {{"schedule_equal", schedules.at(0) == schedules.at(1)},
          {"times_equal", times.at(0) == times.at(1)},
          {"torus schedule_equal", !gpus.messages.empty() && gpus.messages == tpus.messages},
          {"torus times_equal", gpus.seconds == tpus.seconds}};
}

/// Returns a network of one tensor whose replicas take `input` and give `output`.
Network one_tensor(Bytes gradient, Bytes input, Bytes output) {
  Network network;
  network.name = "one tensor";
  Layer& layer = network.layers.emplace_back();
  layer.name = "layer";
  layer.parameters.push_back({"weight", gradient.value / 4});
  layer.saved_tensors = {{"input", input}, {"logits", output}};
  layer.forward.push_back({"forward", flops_work(Flops{1}, Precision::fp32)});
  BackwardKernel& backward = layer.backward.emplace_back();
  backward.name = "backward";
  backward.work = flops_work(Flops{1}, Precision::fp32);
  backward.gradients_ready = {0};
  return network;
}

CentralPlan central_of(const Network& network, int replicas) {
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(network), replicas);
  without_all_reduce(plan);
  plan.stages.front().buckets = gradient_buckets(network, plan.gradient_element, Bytes{1}, Bytes{1}, true);
  plan.accumulation.bytes = Bytes{1e-300};  // sums take no time: the seed is about messages alone
  return central_plan(std::move(plan));
}

double run_central(const CentralPlan& plan, ClusterMachine& machine, Traffic& traffic) {
  const auto program = plan.has_master() ? master_program : storage_program;
  Names names;
  const PassTables tables(plan.step, names);
  const CentralNames words(names);
  Simulation simulation(machine);
  simulation.observe(traffic);
  for (const Actor actor : plan.actors()) simulation.add(actor, program(actor, plan, tables, words));
  return simulation.run().end.value;
}

SeedFigures ptdp_01(const Node& inputs) {
  const int n = static_cast<int>(number_of(inputs, "n"));
  const Bytes s{number_of(inputs, "S_MB") * 1e6}, batch{number_of(inputs, "batch_MB") * 1e6},
      out{number_of(inputs, "out_MB") * 1e6};
  SeedFigures got;
  for (const bool loss_on_master : {false, true}) {
    const Network network = one_tensor(s, batch / n, out);
    CentralPlan plan = central_of(network, n);
    plan.loss_on_master = loss_on_master;
    ClusterMachine machine(star_cluster(n, BytesPerSecond{1e9}), SoftwareStack{});
    Traffic traffic(machine.links());
    run_central(plan, machine, traffic);
    const std::string suffix = loss_on_master ? " with the loss on the master" : "";
    got["master_tx_MB" + suffix] = traffic.sent(0).value * 1e-6;
    got["master_rx_MB" + suffix] = traffic.received(0).value * 1e-6;
    got["other_tx_MB" + suffix] = traffic.sent(1).value * 1e-6;
    got["other_rx_MB" + suffix] = traffic.received(1).value * 1e-6;
  }
  return got;
}

SeedFigures central_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("gradient");
  const std::string link = fields.text("link");
  const ClusterSpec box =
      cluster_of(4, fmt::format("interconnect: pcie\npcie: {{rate: {}, latency: 0 us, lanes_per_socket: "
                                "16, switches: [{{gpus: [0, 1, 2, 3]}}]}}\n",
                                link));
  const Network network = one_tensor(s, Bytes{1}, Bytes{1});
  CentralPlan plan = central_of(network, 4);
  plan.center = host_of(box);
  ClusterMachine machine(box, SoftwareStack{});
  Traffic traffic(machine.links());
  const double seconds = run_central(plan, machine, traffic);
  return {{"step_comm_ms", seconds * 1e3}};
}

const RegisterSeed mode_seeds[] = {
    {"FRM-01", frm_01}, {"MODE-EQ", mode_eq}, {"TPU-01", tpu_01}, {"PTDP-01", ptdp_01}, {"CENTRAL-01", central_01}};

}  // namespace
}  // namespace trainyard
