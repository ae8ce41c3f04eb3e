// torch.autocast: products in 16 bits over parameters and a residual stream in fp32.
#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "models/software/training_memory.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_autocast {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

const char* const kGpt =
    R"({model_type: gpt2, vocab_size: 4096, n_layer: 2, n_embd: 256, n_head: 8, n_positions: 512,
       attn_pdrop: 0, embd_pdrop: 0, resid_pdrop: 0})";

Network network(const char* config, Precision precision, bool autocast, Sharding sharding = {}) {
  TransformerOptions options;
  options.autocast = autocast;
  options.sharding = sharding;
  return transformer_network(parsed_config(config), 2, 128, precision, options);
}

/// The cells of a row of scenarios/measured/tables/pytorch_steps.csv, by column.
using StepRow = std::map<std::string, std::string>;

std::vector<StepRow> pytorch_steps() {
  std::ifstream table(std::string(TRAINYARD_SOURCE_DIR) + "/scenarios/measured/tables/pytorch_steps.csv");
  std::vector<std::string> columns;
  std::vector<StepRow> rows;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream in(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    StepRow& row = rows.emplace_back();
    for (std::size_t i = 0; i < columns.size() && i < cells.size(); ++i) row[columns[i]] = cells[i];
  }
  return rows;
}

template <class Kernels>
double bytes_of_kernels(const Kernels& kernels, const std::string& end) {
  double sum = 0;
  for (const auto& kernel : kernels)
    if (kernel.name.ends_with(end)) sum += kernel.work.bytes.value;
  return sum;
}

}  // namespace

TEST_CASE("autocast changes nothing in fp32", "[autocast]") {
  const Network with = network(kGpt, Precision::fp32, true), without = network(kGpt, Precision::fp32, false);
  REQUIRE(with.layers.size() == without.layers.size());
  for (std::size_t i = 0; i < with.layers.size(); ++i) {
    const Layer &a = with.layers[i], &b = without.layers[i];
    REQUIRE(a.forward.size() == b.forward.size());
    REQUIRE(a.backward.size() == b.backward.size());
    for (std::size_t k = 0; k < a.forward.size(); ++k) CHECK(a.forward[k].work.bytes == b.forward[k].work.bytes);
    for (std::size_t k = 0; k < a.backward.size(); ++k) CHECK(a.backward[k].work.bytes == b.backward[k].work.bytes);
    CHECK(a.activations() == b.activations());
  }
}

TEST_CASE("autocast casts each weight once a pass, and inputs that norms wrote in fp32", "[autocast]") {
  const Network with = network(kGpt, Precision::bf16, true), without = network(kGpt, Precision::bf16, false);
  const Layer &block = with.layers[1], &plain = without.layers[1];
  const double rows = 2 * 128, hidden = 256, weights = 12 * hidden * hidden, tensor = rows * hidden;
  const double cast = 4 + 2;  // bytes of an element in fp32 and in bf16
  CHECK(bytes_of_kernels(block.forward, ".weight_cast") == cast * weights);
  CHECK(bytes_of_kernels(block.backward, ".weight_gradient_cast") == cast * weights);
  CHECK(bytes_of_kernels(block.forward, ".bias_cast") == cast * (3 + 1 + 4 + 1) * hidden);
  CHECK(bytes_of_kernels(block.backward, ".bias_gradient_cast") == cast * (3 + 1 + 4 + 1) * hidden);
  // The inputs of query, key and value, and of the first feed-forward product.
  CHECK(bytes_of_kernels(block.forward, ".input_cast") == cast * 2 * tensor);
  CHECK(bytes_of_kernels(block.backward, ".input_gradient_cast") == cast * 2 * tensor);
  // A sum of the residual stream reads it in fp32 and the branch in bf16; the branch's gradient is cast.
  CHECK(work_of(block.forward, "mlp_residual").bytes.value == (4 + 2 + 4) * tensor);
  CHECK(bytes_of_kernels(block.backward, "residual.gradient_cast") == cast * 2 * tensor);
  CHECK(work_of(block.forward, "mlp_norm").bytes.value == 2 * 4 * tensor + 2 * 4 * rows);
  CHECK(block.forward_flops() == plain.forward_flops());
  CHECK(block.backward_flops() == plain.backward_flops());
  CHECK(gradients_are_ready_once(with));
  CHECK(with.layers.back().forward_flops() == without.layers.back().forward_flops());
}

TEST_CASE("with autocast parameters, gradients and states take 16 bytes a parameter under Adam", "[autocast]") {
  const SoftwareStack stack = catalog_stack("pytorch-autocast");
  const Optimizer& adam = find_optimizer("adamw", Place{});
  SoftwareStack one_device = stack;
  one_device.gradient_bucket_copy = false;
  const StaticMemory memory = static_memory(1e6, Precision::bf16, adam, one_device);
  CHECK((memory.total() - stack.workspace).value == 16e6);
  CHECK(memory.parameters.value == 4e6);
  CHECK(memory.gradients.value == 4e6);
  CHECK(gradient_size(Precision::bf16, stack).value == 4);
  // The parameter, the gradient and two states are read; the parameter and the states are written.
  CHECK(optimizer_traffic(adam, Precision::bf16, stack).value == 4 * 4 + 3 * 4);
  CHECK(gradient_accumulation_work(1e6, Precision::bf16, stack).bytes.value == 3 * 4e6);
}

TEST_CASE("measured, autocast makes a small GPT 1.3 times as slow as parameters in bf16", "[autocast]") {
  // The sentence of the manual (validation.md).
  std::map<std::string, double> step_times;
  for (const StepRow& row : pytorch_steps()) step_times[row.at("id")] = std::atof(row.at("step_ms").c_str());
  const std::string id = "h100-gpt-12x768-s1024-b16";
  CHECK(step_times.at(id) == Approx(47.7).margin(0.05));
  CHECK(step_times.at(id + "-pure") == Approx(36.8).margin(0.05));
}

TEST_CASE("eager PyTorch issues a kernel in the median time that was measured", "[autocast]") {
  std::vector<double> times;  // in us, of steps that the host bounds
  for (const StepRow& row : pytorch_steps()) {
    if (row.at("compile") != "no" || row.at("wrap") != "none") continue;
    const double step = std::atof(row.at("step_ms").c_str()), issue = std::atof(row.at("issue_ms").c_str()),
                 kernels = std::atof(row.at("kernels").c_str());
    if (kernels > 0 && step < 1.1 * issue) times.push_back(1e3 * issue / kernels);
  }
  std::ranges::sort(times);
  REQUIRE(times.size() == 29);
  const double median = times[times.size() / 2];
  const SoftwareStack stack = catalog_stack("pytorch-ddp");
  CHECK(stack.kernel_dispatch.value * 1e6 == Approx(median).margin(0.5));
}

TEST_CASE("autocast over tensor or context ranks is refused", "[autocast]") {
  CHECK_THROWS_WITH(network(kGpt, Precision::bf16, true, {{.tensor = 2}, {}}), Contains("nearest: a stack without it"));
  CHECK_THROWS_WITH(network(kGpt, Precision::bf16, true, {{.context = 2}, {}}),
                    Contains("nearest: a stack without it"));
  CHECK_NOTHROW(network(kGpt, Precision::bf16, false, {{.tensor = 2}, {}}));
}

TEST_CASE("fused attention in tf32 is priced as in fp32", "[autocast]") {
  const auto precision = [](Precision training) {
    return work_of(network(kGpt, training, false).layers[1].forward, "attention").precision;
  };
  CHECK(precision(Precision::tf32) == static_cast<std::uint8_t>(Precision::fp32));
  CHECK(precision(Precision::bf16) == static_cast<std::uint8_t>(Precision::bf16));
}

}  // namespace models_test_autocast
