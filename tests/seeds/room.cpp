// GPT3-03, GPT3-04, ALLOC-01, TNLG-01, ZERO-05, TFM-01: sizes of models, and the devices that hold them.
#include <fmt/format.h>

#include <cmath>

#include "models/networks/network_entry.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/capacity.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {
namespace {

/// Returns the peak memory of a device that trains one layer in bf16 with Adam. `saved_per_sample`: bytes of each
/// sample that the layer saves for its backward pass.
Bytes peak_of_layer(double parameters, Bytes saved_per_sample = {}, std::int64_t samples = 1) {
  Scenario s;
  s.cluster = star_cluster(1, BytesPerSecond{1e9});
  s.software.gradient_bucket_copy = false;
  const Optimizer& adam = find_optimizer("adam", seed_place());
  Network network;
  Layer layer;
  layer.name = "layer";
  layer.parameters.push_back({"weight", parameters});
  layer.saved_tensors.push_back({"activations", saved_per_sample * static_cast<double>(samples)});
  layer.forward.push_back(elementwise("forward", Bytes{1}, s.precision));
  BackwardKernel backward;
  static_cast<KernelCall&>(backward) = elementwise("backward", Bytes{1}, s.precision);
  backward.gradients_ready = {0};
  layer.backward.push_back(backward);
  network.layers.push_back(std::move(layer));
  network.samples = samples;
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(std::move(network)), 1);
  plan.gradient_element = element_size(s.precision);
  plan.stages.front().memory = static_memory(parameters, s.precision, adam, s.software);
  plan.stages.front().optimizer = optimizer_work(parameters, s.precision, adam);
  return peak_memory_alone(s, std::move(plan));
}

double states_of(double parameters) { return peak_of_layer(parameters).value; }

int gpus_for(double bytes, double capacity_gb) { return static_cast<int>(std::ceil(bytes / (capacity_gb * 1e9))); }

Network network_of(const std::string& text) {
  const NetworkEntry entry = read_network_entry(Catalog().resolve("network", parse_document(text, "seed case")));
  return make_network(entry, 1, sample_tokens(entry), Precision::fp32);
}

SeedFigures gpt3_03(const Node& inputs) {
  const double parameters = network_of(words_of(inputs, "model").front()).parameters();
  const double weights = parameters * element_size(Precision::fp16).value, training = states_of(parameters);
  SeedFigures got{{"GB", weights * 1e-9},
                  {"training_states_GB", training * 1e-9},
                  {"training_over_inference", training / weights},
                  {"training_min_gpus_40GB", gpus_for(training, 40)}};
  for (const double gb : numbers_of(inputs, "gpu_GB")) got[fmt::format("min_gpus {}", gb)] = gpus_for(weights, gb);
  return got;
}

/// Compares the claimed number of parameters with those of GPT-3 and GPT-1.
SeedFigures gpt3_04(const Node& inputs) {
  const double gpt1 = network_of("{base: gpt2, vocab_size: 40478, n_positions: 512, n_ctx: 512}").parameters();
  const double gpt3 = network_of("gpt3-175b").parameters();
  const auto near_to = [](double a, double b) { return std::abs(a - b) <= 0.01 * b; };
  const double claimed = number_of(inputs, "claimed");
  return {{"gpt3_parameters", gpt3},
          {"gpt1_parameters", gpt1},
          {"claim_is_gpt3", near_to(claimed, gpt3)},
          {"claim_is_gpt1", near_to(claimed, gpt1)}};
}

SeedFigures alloc_01(const Node& inputs) {
  const Bytes room{number_of(inputs, "gpu_GB") * 1e9}, activations{number_of(inputs, "act_MB_per_sample") * 1e6};
  const double parameters = number_of(inputs, "states_GB") * 1e9 / number_of(inputs, "bytes_per_param");
  const std::int64_t largest = largest_that_fits(
      1, [&](std::int64_t samples) { return peak_of_layer(parameters, activations, samples) <= room; });
  return {{"max_batch", largest}};
}

SeedFigures tnlg_01(const Node& inputs) {
  const double states = states_of(number_of(inputs, "params"));
  SeedFigures got{{"states_GB", states * 1e-9}};
  for (const double gb : numbers_of(inputs, "gpu_GB")) got[fmt::format("min_gpus {}", gb)] = gpus_for(states, gb);
  return got;
}

/// Returns the largest number of parameters whose states fit on a GPU without activations.
double largest_model(double capacity_gb) {
  const Bytes room{capacity_gb * 1e9};
  return static_cast<double>(largest_that_fits(
      std::int64_t{1} << 30, [&](std::int64_t n) { return peak_of_layer(static_cast<double>(n)) <= room; }));
}

SeedFigures zero_05(const Node& inputs) {
  const double gb = number_of(inputs, "gpu_GB"), states = states_of(number_of(inputs, "params")) * 1e-9;
  // With activations: the model of this size in the catalog.
  const Capacity room = capacity(read_scenario_text(
      fmt::format(
          "cluster: {{node: pcie-1, gpu: {{memory_capacity: {} GB}}}}\nmodel: {}\n"
          "plan: {{precision: fp16, micro_batch_size: 1}}\nsoftware: {{base: pytorch-ddp, bare_memory: true}}\n",
          gb, words_of(inputs, "model").front()),
      "zero.yaml"));
  return {{"states_GB", states},
          {"left_for_activations_GB", gb - states},
          {"max_params_states_only_32GB", largest_model(32)},
          {"max_params_states_only_16GB", largest_model(16)},
          {"fits_without_activations", states <= gb},
          {"largest_micro_batch_with_activations", room.largest_micro_batch_size}};
}

SeedFigures tfm_01(const Node& inputs) {
  const std::string text = fmt::format(
      "cluster: {{nodes: 2, node: {{base: pcie-1, hca: {{count: 1, type: ethernet-10g}}}}, fabric: ethernet}}\n"
      "model: {{mlp: {{widths: [{}]}}}}\nplan: {{precision: fp32, micro_batch_size: 1}}\n",
      fmt::join(words_of(inputs, "widths"), ", "));
  const Scenario s = read_scenario_text(text, "keras.yaml");
  std::string counts;
  for (const Layer& layer : s.network.layers)
    counts += (counts.empty() ? "" : " ") + fmt::format("{:.0f}", layer.parameter_elements());
  const auto time = [&s](const char* faster_class) {
    return simulate(read_again(s, faster(s, faster_class, 2))).step_time.value;
  };
  const double network = time("HCA"), latency = time("latency");
  return {{"params", counts},
          {"total", s.network.parameters()},
          {"fp32_gradient_bytes", s.network.parameters() * plan(s).training.gradient_element.value},
          {"regime", latency < network ? "latency bound" : "bandwidth bound"}};
}

const RegisterSeed room_seeds[] = {{"GPT3-03", gpt3_03}, {"GPT3-04", gpt3_04}, {"ALLOC-01", alloc_01},
                                   {"TNLG-01", tnlg_01}, {"ZERO-05", zero_05}, {"TFM-01", tfm_01}};

}  // namespace
}  // namespace trainyard
