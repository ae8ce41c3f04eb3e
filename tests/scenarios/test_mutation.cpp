// Mistyped, truncated and nonsensical scenarios: each is accepted, or refused in one line with its place. None crashes,
// and no unknown key is accepted.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <set>

#include "scenarios/src/running/simulate.hpp"
#include "tests/cases.hpp"
#include "tests/temporary_folder.hpp"

namespace scenarios_test_mutation {

using namespace trainyard;

namespace {

/// A scenario with every kind of field, written out in place, and small enough to be simulated.
constexpr const char* kInPlace = R"(name: in place
cluster:
  nodes: 2
  node:
    gpu:
      count: 2
      type:
        architecture: none
        peak: {bf16: {value: 100 TFLOP/s, source: here, unverified: true}, fp32: 10 TFLOP/s}
        memory_bandwidth: 1 TB/s
        memory_capacity: 16 GiB
        kernel_launch: 3 us
        efficiency: {gemm: {flops: 0.5, memory: 0.5}}
        interference: {compute_while_communicating: 0.9, communication_while_computing: 1}
        nvlink: 100 GB/s
        pcie: 16 GB/s
    interconnect: nvswitch
    nvlink: {latency: 1 us}
    pcie: {latency: 0.5 us, rate: 16 GB/s}
    hca: {count: 2, rate: 100 Gbit/s, latency: 1 us}
  fabric: {type: nonblocking, switch_latency: 200 ns}
model:
  base: gpt2
  n_layer: 2
plan:
  global_batch_size: 16
  micro_batch_size: 2
  seq_length: 128
  precision: bf16
  optimizer: adamw
  flash_attention: true
  data_parallel: {size: 4, all_reduce: ring, overlap: true, first_bucket: 1 MiB, bucket: 25 MiB, bucket_boundaries: bytes}
software:
  description: ours
  kernel_dispatch: 4 us
  collective_launch: 5 us
  network_step: 6 us
  step_overhead: 1 ms
  whole_tensors: true
  first_bucket: 1 MiB
  bucket: 25 MiB
  overlap: true
  gradient_bucket_copy: true
  fused_loss: false
  workspace: 1 GiB
)";
constexpr const char* kMlp = R"(cluster:
  node: {base: t4-server, gpu: {count: 2}}
model: {mlp: {widths: [32, 64, 10], loss: softmax_cross_entropy}}
plan: {global_batch_size: 8, micro_batch_size: 4, precision: fp32, optimizer: sgd}
)";

constexpr const char* kCnn = R"(cluster:
  node: {base: t4-server, gpu: {count: 2}}
model:
  cnn:
    input: [3, 16, 16]
    auxiliary: true
    blocks:
      unit:
        arguments: {out, kernel: 3}
        layers:
        - conv: {out: $out, kernel: $kernel, stride: 1, padding: same, groups: 1, bias: false}
        - batch_norm
        - relu
      pair:
        layers:
        - unit: {out: 4, kernel: 1}
        - unit: {out: 4}
    layers:
    - conv: {out: 4, kernel: [3, 2], stride: 2, padding: 1}
    - residual: {layers: [pair], shortcut: [unit: {out: 4}]}
    - pair: {repeat: 2}
    - concat: [[max_pool: {kernel: 3, stride: 1, padding: 1}], [unit: {out: 5}]]
    - auxiliary: [flatten, linear: {out: 10, bias: true}, softmax_cross_entropy]
    - adaptive_pool: {out: 2}
    - flatten
    - dropout: {probability: 0.5}
    - linear: {out: 10}
    - softmax_cross_entropy
plan: {global_batch_size: 8, micro_batch_size: 4, precision: fp32, optimizer: sgd}
)";

std::string text_of(const Node& node, std::size_t indent) {
  const std::string margin(indent, ' ');
  switch (node.kind) {
    case Node::Kind::null:
      return " ~\n";
    case Node::Kind::scalar:
      return node.quoted ? " \"" + node.scalar + "\"\n" : " " + node.scalar + "\n";
    case Node::Kind::list: {
      if (node.items.empty()) return " []\n";
      std::string text = "\n";
      for (const Node& item : node.items) text += margin + "-" + text_of(item, indent + 2);
      return text;
    }
    case Node::Kind::map:
      break;
  }
  if (node.fields.empty()) return " {}\n";
  std::string text = "\n";
  for (const auto& [key, field] : node.fields) text += margin + key + ":" + text_of(field, indent + 2);
  return text;
}
std::string text_of(const Node& root) { return text_of(root, 0).substr(1); }

struct Mutant {
  std::string what, text;
  bool must_be_refused = false;  ///< by the reader
};

/// Appends all mutants with one change at one place of the tree. `print_tree` prints the current tree.
void mutate(Node& node, const std::string& path, const std::function<std::string()>& print_tree,
            std::vector<Mutant>& mutants) {
  static const std::vector<std::string> values{
      "-1", "0", "1", "3", "1e308", ".nan", "nan", ".inf", "-.inf", "99999999999999999999", "2147483648", "4294967298",
      "9223372036854775807", "1e-300 GB/s", "1e300 TB/s", "0 GB/s", "-5 us", "12 parsecs", "7 GiB", "1e6 s", "400 Gbit",
      "0.001 B", "1e30 TFLOP/s", "true", "\"\"", "\"nonsense\"", "~", "[1, 2]", "0x10", "\"\\u00e9\\u4e16\"",
      // values of the right kind, but absurd
      "1 B/s", "1e24 B/s", "1 FLOP/s", "1e24 FLOP/s", "9 s", "1 ps", "59 s", "1 B", "1e24 B", "1e-6", "1000", "10000",
      "16384", "16777216", "1048576", "[16777216, 16777216, 16777216]", "[1, -2]", "[1, {a: 1}]", "fp64", "sgd",
      "gather-broadcast", "pcie", "llama-2-7b"};

  for (std::size_t i = 0; i < node.items.size(); ++i)
    mutate(node.items[i], path + "." + std::to_string(i), print_tree, mutants);
  if (node.kind == Node::Kind::map) {
    node.fields.emplace_back("surprise", Node::scalar_node("1"));
    mutants.push_back({path + ": one more key", print_tree(), true});
    node.fields.pop_back();
  }
  for (std::size_t i = 0; i < node.fields.size(); ++i) {
    const std::string key = node.fields[i].first;
    const std::string field_path = path + "." + key;
    const auto change = [&](const std::string& what, bool must_be_refused) {
      mutants.push_back({field_path + ": " + what, print_tree(), must_be_refused});
    };
    node.fields[i].first = key + "x";
    change("renamed", true);
    node.fields[i].first = key;
    node.fields.push_back(node.fields[i]);
    change("twice", true);
    node.fields.pop_back();
    const auto field = node.fields[i];
    node.fields.erase(node.fields.begin() + static_cast<std::ptrdiff_t>(i));
    change("removed", false);
    node.fields.insert(node.fields.begin() + static_cast<std::ptrdiff_t>(i), field);
    for (const std::string& value : values) {
      node.fields[i].second = Node::scalar_node(value);
      change("= " + value, false);
    }
    node.fields[i].second = Node::scalar_node("{surprise: 1}");
    change("a map", true);
    node.fields[i].second = field.second;
    mutate(node.fields[i].second, field_path, print_tree, mutants);
  }
}

std::vector<Mutant> mutants_in_valid_yaml(const std::string& text) {
  Node root = parse_document(text, "original.yaml");
  std::vector<Mutant> mutants;
  mutate(
      root, "", [&root] { return text_of(root); }, mutants);
  return mutants;
}

/// Mutants of the text with deleted, inserted and replaced characters, copied parts and cut-off ends.
std::vector<Mutant> garbled_mutants(const std::string& text, std::size_t count, std::uint64_t seed) {
  static const std::string odd_characters =
      "{}[]:,#&*!|>'\"%@`\\-?~\t\n \r\x01\x7f\xff\xc3\xa9" + std::string(1, '\0') + "0123456789eE+.azAZ/";
  std::mt19937_64 random(seed);  // the standard specifies its numbers: they are the same everywhere
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<Mutant> mutants;
  for (std::size_t i = 0; i < count; ++i) {
    std::string mutated = text;
    for (std::size_t edits = 1 + below(4); edits > 0 && !mutated.empty(); --edits) {
      const std::size_t position = below(mutated.size());
      switch (below(6)) {
        case 0:
          mutated.erase(position, 1 + below(12));
          break;
        case 1:
          mutated.insert(position, 1, odd_characters[below(odd_characters.size())]);
          break;
        case 2:
          mutated[position] = odd_characters[below(odd_characters.size())];
          break;
        case 3:
          mutated.insert(position, mutated.substr(below(mutated.size()), below(40)));
          break;
        case 4:
          mutated[position] = static_cast<char>(mutated[position] ^ (1 << below(8)));
          break;
        default:
          if (below(8) == 0) mutated.resize(position);
      }
    }
    mutants.push_back({"garbage " + std::to_string(i), mutated, false});
  }
  return mutants;
}

struct Reading {
  bool accepted = false;
  std::string error;
};

/// True if the error is one line of the form "file:line:column: what".
bool has_place(const std::string& error) {
  const auto skip_number = [&error](std::size_t& position) {
    const std::size_t first_digit = ++position;  // past the colon
    while (position < error.size() && std::isdigit(static_cast<unsigned char>(error[position]))) ++position;
    return position > first_digit && position < error.size() && error[position] == ':';
  };
  std::size_t position = error.find(':');
  if (position == std::string::npos || position == 0 || error.find('\n') != std::string::npos) return false;
  return skip_number(position) && skip_number(position) && error.size() > position + 2 && error[position + 1] == ' ';
}

/// Reads a mutant. Checks that every exception is a UserError of one line with a place.
Reading read(const Mutant& mutant, std::optional<Scenario>& scenario) {
  Reading outcome;
  try {
    scenario = read_scenario_text(mutant.text, "mutant.yaml");
    plan(*scenario);
    outcome.accepted = true;
  } catch (const UserError& e) {
    outcome.error = e.what();
  } catch (const std::exception& e) {
    FAIL("not a UserError: " << e.what());
  }
  if (!outcome.accepted) CHECK(has_place(outcome.error));
  if (mutant.must_be_refused) CHECK_FALSE(outcome.accepted);
  return outcome;
}

void check_simulation(const Scenario& scenario) {
  try {
    const Result result = simulate(scenario);
    CHECK(std::isfinite(result.step_time.value));
    CHECK(result.step_time.value > 0);
    CHECK(std::isfinite(result.memory.peak.value));
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
  } catch (const std::exception& e) {
    FAIL_CHECK("the simulation failed: " << e.what());
  }
}

}  // namespace

TEST_CASE("the scenarios that are mutated here are valid, and their printed text is the same scenario", "[mutation]") {
  for (const char* text : {kInPlace, kMlp, kCnn}) {
    const Scenario s = read_scenario_text(text, "original.yaml");
    const Scenario again = read_scenario_text(text_of(parse_document(text, "original.yaml")), "original.yaml");
    CHECK(again.network.parameters() == s.network.parameters());
    CHECK(plan(again).training.stages.front().buckets.size() == plan(s).training.stages.front().buckets.size());
    CHECK(again.global_batch_size == s.global_batch_size);
  }
}

TEST_CASE("mutated scenarios in valid YAML are refused with their place, or can be simulated", "[mutation]") {
  std::size_t count = 0, refused = 0, accepted = 0, simulated = 0;
  std::set<std::string> errors;
  const auto run = [&](const std::string& text, bool simulate_some, std::size_t stride = 1) {
    const std::vector<Mutant> mutants = mutants_in_valid_yaml(text);
    std::vector<const Mutant*> accepted_mutants;
    for (std::size_t i = 0; i < mutants.size(); i += stride) {
      const Mutant& mutant = mutants[i];
      INFO(mutant.what << "\n" << mutant.text);
      std::optional<Scenario> scenario;
      const Reading outcome = read(mutant, scenario);
      ++count;
      ++(outcome.accepted ? accepted : refused);
      errors.insert(outcome.error);
      if (outcome.accepted) accepted_mutants.push_back(&mutant);
    }
    // Every third accepted mutant is simulated, or some 50 in all.
    const std::size_t step = test::all_cases() ? 3 : std::max<std::size_t>(3, accepted_mutants.size() / 50);
    for (std::size_t i = 0; i < accepted_mutants.size() && simulate_some; i += step) {
      INFO(accepted_mutants[i]->what << "\n" << accepted_mutants[i]->text);
      check_simulation(read_scenario_text(accepted_mutants[i]->text, "mutant.yaml"));
      ++simulated;
    }
  };
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios"))
    if (file.path().extension() == ".yaml") run(test::file_text(file.path()), false, test::all_cases() ? 1 : 10);
  run(kInPlace, true);
  run(kMlp, true);
  run(kCnn, true);
  CHECK(count >= 300);
  CHECK(refused >= 300);
  CHECK(errors.size() >= 200);
  CHECK(accepted >= 50);
  CHECK(simulated >= 50);
}

TEST_CASE("scenarios with mutated characters are accepted, or refused with their place", "[mutation]") {
  std::size_t refused = 0;
  for (const std::string& text :
       {std::string(kInPlace), std::string(kMlp), std::string(kCnn),
        test::file_text(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios" / "gpt2-xl-ddp-dgx-a100.yaml")}) {
    for (const Mutant& mutant : garbled_mutants(text, 200, text.size())) {
      INFO(mutant.what << "\n" << mutant.text);
      std::optional<Scenario> scenario;
      if (!read(mutant, scenario).accepted) ++refused;
    }
  }
  CHECK(refused >= 300);
}

}  // namespace scenarios_test_mutation
