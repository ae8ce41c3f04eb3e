// ZERO-04, FSDP-01: traffic and memory of sharded parameters. TP-01, MPDP-01, MPDP-02: exchanges of split layers.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/networks/network_entry.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/traffic.hpp"
#include "sim/observers/values.hpp"
#include "strategies/step/training_programs.hpp"
#include "tests/seeds/simple_training.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Sums the bytes that rank 0 sends, by the names of operations.
class SentByName : public Observer {
 public:
  explicit SentByName(const Names& names) : names_(names) {}
  void finished(const OpRun& run) override {
    if (run.op->kind == Kind::send && run.op->actor == 0) bytes[names_[run.op->name]] += run.op->message.bytes.value;
  }
  std::map<std::string, double> bytes;

 private:
  const Names& names_;
};

struct ShardRun {
  std::map<std::string, double> sent_by_name;
  double sent = 0, received = 0;  // by rank 0
  MemoryUse::ByClass at_peak{};   // memory of rank 0
};

/// Simulates one step on a star. Groups exchange messages by the default algorithms.
ShardRun run_shards(TrainingPlan plan) {
  LaneChoice choice;
  for (const Operation o : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter})
    choice[o] = &default_collective(o);
  make_lanes(plan, std::vector<int>(static_cast<std::size_t>(plan.ranks()), 0), choice, choice, {});
  Names names;
  ClusterMachine machine(star_cluster(plan.ranks(), BytesPerSecond{1e9}), SoftwareStack{});
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  Traffic traffic(machine.links());
  MemoryUse memory;
  SentByName by_name(names);
  Simulation simulation(machine);
  simulation.observe(traffic);
  simulation.observe(memory);
  simulation.observe(by_name);
  for (int rank = 0; rank < plan.ranks(); ++rank) simulation.add(rank, training_program(rank, plan, tables, streams));
  simulation.run();
  return {by_name.bytes, traffic.sent(0).value, traffic.received(0).value, memory.parts_at_peak(0)};
}

/// Returns a plan of one stage with all layers: a forward pass, and with `backward` a backward pass.
TrainingPlan whole_step(const Network& network, ZeroStage zero, bool backward = true) {
  TrainingPlan plan;
  plan.network = std::make_shared<const Network>(network);
  plan.zero = zero;
  plan.gradient_element = plan.parameter_element = element_size(network.precision);
  StagePlan& stage = plan.stages.emplace_back();
  std::vector<int>& layers = stage.chunks.emplace_back(network.layers.size());
  std::iota(layers.begin(), layers.end(), 0);
  stage.tasks.push_back({PipelineTask::Pass::forward, 0, 0});
  if (backward) stage.tasks.push_back({PipelineTask::Pass::backward, 0, 0});
  stage.buckets = zero == ZeroStage::parameters
                      ? layer_buckets(network, layers)
                      : gradient_buckets(network, plan.gradient_element, Bytes{1}, Bytes{1}, true);
  return plan;
}

/// Returns layers of one tensor each. Each pass of a layer takes a second, longer than any exchange.
Network even_layers(int count, double parameters, Precision precision) {
  const Work work = flops_work(Flops{1e12}, precision);
  return simple_layers(count, parameters, work, work, precision);
}

SeedFigures zero_04(const Node& inputs) {
  constexpr int layers = 4;
  constexpr double elements = 1e6;
  const Network network = even_layers(layers, elements, Precision::fp32);
  SeedFigures got;
  for (const double n : numbers_of(inputs, "N")) {
    std::vector<double> units;
    for (int stage = 0; stage <= 3; ++stage) {
      TrainingPlan plan = whole_step(network, static_cast<ZeroStage>(stage));
      plan.mesh.data = static_cast<int>(n);
      const double sent = run_shards(plan).sent;
      units.push_back(sent / (layers * elements * plan.parameter_element.value) / ((n - 1) / n));
      got[fmt::format("{} {}", stage == 0 ? "dp_allreduce" : fmt::format("zero{}", stage), n)] = units.back();
    }
    got[fmt::format("zero3_vs_dp {}", n)] = units[3] / units[0];
  }
  return got;
}

SeedFigures fsdp_01(const Node& inputs) {
  const int layers = static_cast<int>(number_of(inputs, "layers")), n = static_cast<int>(number_of(inputs, "N"));
  const double elements = number_of(inputs, "params_per_layer");
  const Network network = even_layers(layers, elements, Precision::fp32);
  const StaticMemory states = model_states(held_elements(layers * elements, zero_shares(ZeroStage::parameters, n)),
                                           Precision::bf16, find_optimizer("adam", seed_place()));
  const auto run = [&](bool backward) {
    TrainingPlan plan = whole_step(network, ZeroStage::parameters, backward);
    plan.parameter_element = plan.gradient_element = element_size(Precision::bf16);
    plan.mesh.data = n;
    plan.prefetch = static_cast<int>(number_of(inputs, "prefetch_layers"));
    plan.stages.front().memory = states;
    return run_shards(plan);
  };
  const ShardRun forward = run(false), step = run(true);
  const double parameters = step.at_peak[static_cast<std::size_t>(MemoryClass::parameters)];
  const double gradients = step.at_peak[static_cast<std::size_t>(MemoryClass::gradients)];
  return {{"resident_states_GB", states.total().value * 1e-9},
          {"transient_GB", (parameters - states.parameters.value) * 1e-9},
          {"transient_gradients_GB", (gradients - states.gradients.value) * 1e-9},
          {"gathered_bytes_per_gpu_fwd_GB", forward.received * 1e-9},
          {"step_bytes_per_gpu_GB", step.received * 1e-9}};
}

double matrix_elements(const Layer& layer) {
  double elements = 0;
  for (const ParameterTensor& tensor : layer.parameters)
    if (tensor.in > 0) elements += tensor.elements;
  return elements;
}

SeedFigures tp_01(const Node& inputs) {
  const int ranks = static_cast<int>(number_of(inputs, "tp"));
  const auto hidden = static_cast<std::int64_t>(number_of(inputs, "hidden")),
             seq = static_cast<std::int64_t>(number_of(inputs, "seq")),
             batch = static_cast<std::int64_t>(number_of(inputs, "batch"));
  const NetworkEntry entry = read_network_entry(parse_document(
      fmt::format("{{model_type: gpt2, n_embd: {}, n_head: 16, n_layer: 1, n_positions: {}, vocab_size: 1024}}", hidden,
                  seq),
      "layer.yaml"));
  TransformerOptions options;
  const Network full_network = make_network(entry, batch, seq, Precision::fp16, options);
  options.sharding.tensor = ranks;
  const Network share = make_network(entry, batch, seq, Precision::fp16, options);
  TrainingPlan plan = whole_step(share, ZeroStage::none);
  plan.mesh.tensor = ranks;
  plan.sharding = options.sharding;
  const std::string block = share.layers[1].name + " ";
  int forward = 0, backward = 0;
  double message_bytes = 0;
  for (const auto& [name, bytes] : run_shards(plan).sent_by_name) {
    if (!name.starts_with(block)) continue;
    ++(name.ends_with(".backward") ? backward : forward);
    message_bytes = std::max(message_bytes, bytes / bus_factor(Operation::all_reduce, ranks));
  }
  return {{"allreduces_per_layer_fwd", forward},
          {"allreduces_per_layer_bwd", backward},
          {"bytes_each", message_bytes},
          {"weight_fraction_per_gpu", matrix_elements(share.layers[1]) / matrix_elements(full_network.layers[1])}};
}

/// Returns the bytes that a tensor rank sends in exchanges of activations of this layer.
double split_bytes(const Network& share, const Sharding& sharding, const std::string& layer) {
  TrainingPlan plan = whole_step(share, ZeroStage::none);
  plan.mesh.tensor = sharding.tensor;
  plan.sharding = sharding;
  double bytes = 0;
  for (const auto& [name, sent] : run_shards(plan).sent_by_name) bytes += name.starts_with(layer + " ") ? sent : 0;
  return bytes;
}

/// Returns the bytes that one of `ranks` replicas sends for the gradient of one weight.
double replicated_bytes(const Network& network, int ranks, std::size_t layer, int tensor) {
  TrainingPlan plan = whole_step(network, ZeroStage::none);
  plan.mesh.data = ranks;
  std::erase_if(plan.stages.front().buckets, [&](const GradientBucket& bucket) {
    return bucket.layer != static_cast<int>(layer) || bucket.parts.front().tensor != tensor;
  });
  return run_shards(plan).sent;
}

/// A fully connected layer after another one, so that it has a gradient of its input.
struct FcLayer {
  MlpShape shape;
  Sharding sharding;
  FcLayer(int in, int out, int ranks) {
    shape.widths = {ranks, in, out};
    sharding.tensor = ranks;
    sharding.linear_split = LinearSplit::columns;
  }
  double data_parallel(std::int64_t batch) const {
    return replicated_bytes(mlp_network(shape, batch, Precision::fp32), sharding.tensor, 1, 0);
  }
  double model_parallel(std::int64_t batch) const {
    return split_bytes(mlp_network(shape, batch, Precision::fp32, sharding), sharding, "layer 1");
  }
};

const char* winner(double data, double model) { return data < model ? "data parallel" : "model parallel"; }

SeedFigures mpdp_01(const Node& inputs) {
  const int n = static_cast<int>(number_of(inputs, "n"));
  const auto batch = static_cast<std::int64_t>(number_of(inputs, "batch_global"));
  const std::vector<double> fc = numbers_of(inputs, "fc"), conv = numbers_of(inputs, "conv");
  const FcLayer layer(static_cast<int>(fc[0]), static_cast<int>(fc[1]), n);
  const double fc_data = layer.data_parallel(batch / n), fc_model = layer.model_parallel(batch);

  const NetworkEntry entry = read_network_entry(parse_document(
      fmt::format(
          "{{cnn: {{input: [4, {2}, {2}], layers: [{{conv: {{out: {0}, kernel: 1, bias: false}}}}, {{conv: "
          "{{out: {0}, kernel: {1}, padding: same, bias: false}}}}, global_pool, flatten, {{linear: {{out: 4}}}}, "
          "softmax_cross_entropy]}}}}",
          conv[0], conv[1], conv[2]),
      "conv.yaml"));
  TransformerOptions options;
  const Network full_network = make_network(entry, batch / n, 1, Precision::fp32, options);
  options.sharding.tensor = n;
  const Network share = make_network(entry, batch, 1, Precision::fp32, options);
  const double conv_data = replicated_bytes(full_network, n, 1, 0);
  const double conv_model = split_bytes(share, options.sharding, share.layers[1].name);
  return {{"fc_dp_bytes_per_gpu", fc_data},         {"fc_mp_bytes_per_gpu", fc_model},
          {"conv_dp_bytes_per_gpu", conv_data},     {"conv_mp_bytes_per_gpu", conv_model},
          {"fc_winner", winner(fc_data, fc_model)}, {"conv_winner", winner(conv_data, conv_model)}};
}

SeedFigures mpdp_02(const Node& inputs) {
  const std::vector<double> fc = numbers_of(inputs, "fc");
  const FcLayer layer(static_cast<int>(fc[0]), static_cast<int>(fc[1]), static_cast<int>(number_of(inputs, "n")));
  SeedFigures got;
  double data = 0, model_per_sample = 0;
  for (const double batch : numbers_of(inputs, "batch")) {
    const auto samples = static_cast<std::int64_t>(batch);
    data = layer.data_parallel(samples);
    const double model = layer.model_parallel(samples);
    model_per_sample = model / batch;
    got[fmt::format("dp_MB {}", batch)] = data * 1e-6;
    got[fmt::format("mp_MB {}", batch)] = model * 1e-6;
  }
  got["crossover_batch"] = data / model_per_sample;
  return got;
}

const RegisterSeed shard_seeds[] = {
    {"ZERO-04", zero_04}, {"FSDP-01", fsdp_01}, {"TP-01", tp_01}, {"MPDP-01", mpdp_01}, {"MPDP-02", mpdp_02}};

}  // namespace
}  // namespace trainyard
