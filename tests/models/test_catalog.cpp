#include <algorithm>
#include <catch2/catch.hpp>

#include "models/hardware/node.hpp"
#include "models/software/stack.hpp"
#include "tests/temporary_folder.hpp"

namespace models_test_catalog {

using namespace trainyard;

namespace {

const Catalog& shipped() {
  static const Catalog catalog(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "models" / "catalog");
  return catalog;
}

Node reference(std::string_view text) { return parse_document(text, "x.yaml"); }

void check_sources(const Sources& sources) {
  CHECK_FALSE(sources.empty());
  for (const FigureSource& f : sources) {
    INFO(f.figure << " = " << f.value << ", source \"" << f.source << "\"");
    CHECK(f.source.size() > 20);  // a key that `sources` lacks stays a single word
    CHECK(f.source.find(' ') != std::string::npos);
    CHECK_FALSE(f.value.empty());
    if (f.source.starts_with("assumed") ||
        (f.source.ends_with("not checked") && f.source.find("checked a") == std::string::npos))
      CHECK(f.unverified);
  }
}

NodeType node_of(const Node& node) { return read_node(shipped().resolve("node", node), shipped()); }
SoftwareStack stack_of(std::string_view name) { return read_stack(shipped().resolve("stack", reference(name))); }

const FigureSource& source_of(const Sources& sources, const std::string& figure) {
  for (const FigureSource& f : sources)
    if (f.figure == figure) return f;
  throw std::runtime_error("no figure " + figure);
}

}  // namespace

TEST_CASE("every GPU of the catalog has sourced figures that make physical sense", "[catalog]") {
  for (const std::string& name : shipped().names("gpu")) {
    INFO(name);
    const Gpu gpu = read_gpu(shipped().resolve("gpu", reference(name)));
    CHECK(gpu.name == name);
    check_sources(gpu.sources);
    const auto peak = [&](Precision p) { return gpu.peak[static_cast<std::size_t>(p)]; };
    // Chips before Pascal have no fp16 arithmetic; TPUs have bf16 instead.
    const FlopsPerSecond half = std::max(peak(Precision::fp16), peak(Precision::bf16));
    if (half.value > 0) CHECK(half > peak(Precision::fp32));
    CHECK(peak(Precision::fp32) > FlopsPerSecond{0});
    CHECK(gpu.memory_bandwidth > gpu.pcie);
    CHECK(gpu.memory_bandwidth > gpu.nvlink);
    CHECK(gpu.memory_bandwidth < BytesPerSecond{23e12});
    CHECK(gpu.memory_capacity > Bytes{8e9});
    CHECK(gpu.memory_capacity < Bytes{1e12});
    CHECK((gpu.nvlink.value == 0 || gpu.nvlink > gpu.pcie));
    CHECK(gpu.kernel_launch > Seconds{0.5e-6});
    CHECK(gpu.kernel_launch < Seconds{20e-6});
    for (std::size_t k = 0; k < kKernels; ++k) {
      const Gpu::Efficiency& e = gpu.efficiency[k];
      CHECK(e.flops > 0);
      CHECK(e.flops <= (static_cast<Kernel>(k) == Kernel::convolution_3x3 ? 2.25 : 1));  // Winograd's F(2x2, 3x3)
      CHECK(e.memory > 0);
      CHECK(e.memory <= 1);
    }
    CHECK(gpu.compute_while_communicating <= 1);
  }
}

TEST_CASE("every node of the catalog has sourced figures that make physical sense", "[catalog]") {
  for (const std::string& name : shipped().names("node")) {
    INFO(name);
    const NodeType node = node_of(reference(name));
    CHECK(node.name == name);
    check_sources(node.sources);
    CHECK(node.gpus >= 1);
    CHECK((node.interconnect == "nvswitch" || node.interconnect == "nvlink-mesh" || node.interconnect == "pcie"));
    if (node.interconnect != "pcie") CHECK(node.nvlink_latency.count > 0);
    CHECK(node.pcie_rate.value > 0);
    if (node.hcas > 0) CHECK(node.hca_rate <= node.pcie_rate);       // 16 lanes
    CHECK((node.gpu.kind != ChipKind::tpu) == node.fabric.empty());  // TPUs have the links between their chips
    CHECK(node.pcie_latency < Picoseconds{10'000'000});
  }
}

TEST_CASE("every software stack of the catalog has sourced figures", "[catalog]") {
  for (const std::string& name : shipped().names("stack")) {
    INFO(name);
    const SoftwareStack stack = stack_of(name);
    CHECK(stack.name == name);
    CHECK_FALSE(stack.description.empty());
    check_sources(stack.sources);
    CHECK(stack.bucket >= stack.first_bucket);
  }
  const SoftwareStack plain = stack_of("plain");
  CHECK(plain.kernel_dispatch + plain.collective_launch + plain.step_overhead == Seconds{0});
  const SoftwareStack ddp = stack_of("pytorch_ddp");
  CHECK(ddp.bucket == Bytes{25 * 1048576.0});
  CHECK(ddp.first_bucket == Bytes{1048576.0});
}

namespace {

/// Returns the numbers in the formulas of `text`, such as "max(40000000, 1000000 * data parallel ranks)".
std::vector<double> numbers_in_formulas(const std::string& text) {
  std::vector<double> numbers;
  for (std::size_t start = text.find("max("); start != std::string::npos; start = text.find("max(", start + 1)) {
    const std::string formula = text.substr(start, text.find(')', start) - start);
    for (std::size_t i = 0; i < formula.size();) {
      std::size_t end = i;
      while (end < formula.size() && std::isdigit(static_cast<unsigned char>(formula[end]))) ++end;
      if (end > i) numbers.push_back(std::stod(formula.substr(i, end - i)));
      i = end + 1;
    }
  }
  return numbers;
}

}  // namespace

TEST_CASE("a constant of a stack whose source is a formula is one of its numbers, and the stack follows it",
          "[catalog]") {
  int rules = 0;
  for (const std::string& name : shipped().names("stack")) {
    CAPTURE(name);
    const SoftwareStack stack = stack_of(name);
    std::vector<double> of_rule;
    for (const FigureSource& figure : stack.sources) {
      CAPTURE(figure.figure, figure.value);
      const std::vector<double> numbers = numbers_in_formulas(figure.source);
      if (numbers.empty() || !std::isdigit(static_cast<unsigned char>(figure.value.front()))) continue;
      CHECK(figure.value.find_first_not_of("0123456789") == std::string::npos);  // not a fixed size
      CHECK(std::find(numbers.begin(), numbers.end(), std::stod(figure.value)) != numbers.end());
      of_rule = numbers;
    }
    if (of_rule.empty()) continue;
    ++rules;
    REQUIRE(of_rule.size() == 2);
    REQUIRE(stack.gradient_precision);
    for (const double replicas : {1.0, 40.0, 41.0, 1536.0})
      CHECK(stack.default_bucket(replicas) ==
            element_size(*stack.gradient_precision) * std::max(of_rule[0], of_rule[1] * replicas));
    CHECK(stack.bucket == stack.default_bucket(1));
  }
  CHECK(rules == 14);  // Megatron's releases, NeMo, and entries based on them
}

TEST_CASE("a library slows down overlapping kernels equally in all stacks that use it", "[catalog]") {
  const double fsdp = stack_of("pytorch-fsdp").slowdowns.overlapped;
  CHECK(fsdp > 1);
  int checked = 0;
  for (const std::string& name : shipped().names("stack")) {
    CAPTURE(name);
    bool on_fsdp = false;
    for (std::string base = name; !base.empty();) {
      const Node entry = shipped().entry("stack", base, {});
      base = entry.find("base") ? entry.find("base")->scalar : "";
      on_fsdp |= base == "pytorch-fsdp";
    }
    if (!on_fsdp) continue;
    ++checked;
    CHECK(stack_of(name).slowdowns.overlapped == fsdp);
  }
  CHECK(checked == 6);
}

TEST_CASE("what one machine or one precision showed is not carried over to releases that show otherwise", "[catalog]") {
  CHECK(stack_of("megatron-core").slowdowns.exchanges > 1);  // fitted on one machine of B200
  CHECK(stack_of("megatron-core@0.6").slowdowns.exchanges == 1);
  CHECK(stack_of("paddlenlp").slowdowns.exchanges == 1);
  CHECK(stack_of("megatron-bridge@26.04").expert_launches_in_16_bits);
  CHECK_FALSE(stack_of("megatron-bridge@26.04-graphs").expert_launches_in_16_bits);  // the router is in a graph
  CHECK_FALSE(stack_of("nemo").expert_launches_in_16_bits);
}

TEST_CASE("datasheet figures are carried over exactly", "[catalog]") {
  const NodeType node = node_of(reference("dgx-a100"));
  CHECK(node.gpus == 8);
  CHECK(node.hcas == 8);
  CHECK(node.hca_rate == BytesPerSecond{25e9});
  CHECK(node.gpu.peak[static_cast<std::size_t>(Precision::bf16)] == FlopsPerSecond{312e12});
  CHECK(node.gpu.memory_bandwidth == BytesPerSecond{2039e9});
  CHECK(node.gpu.memory_capacity == Bytes{80 * 1073741824.0});
  CHECK(node.gpu.nvlink == BytesPerSecond{300e9});
  const NodeType smaller = node_of(reference("dgx_a100_40gb"));
  CHECK(smaller.gpu.name == "a100-sxm4-40gb");
  CHECK(smaller.gpu.memory_bandwidth == BytesPerSecond{1555e9});
  CHECK(smaller.gpu.nvlink == node.gpu.nvlink);
}

TEST_CASE("an unknown entry is refused at its place, with the nearest one", "[catalog]") {
  CHECK_THROWS_WITH(shipped().resolve("node", reference("dgx-a10")),
                    "x.yaml:1:1: unknown node \"dgx-a10\"; did you mean \"dgx-a100\"?");
  CHECK_THROWS_WITH(
      shipped().resolve("stack", reference("../gpus/t4")),
      "x.yaml:1:1: unknown stack \"../gpus/t4\"; known: deepspeed, horovod-tcp, internevo, "
      "jax, llm-foundry, megatron-2020, megatron-2022, megatron-bridge, megatron-bridge@26.04, "
      "megatron-bridge@26.04-graphs, megatron-bridge@26.06, megatron-core, megatron-core@0.6, megatron-deepspeed, "
      "megatron-deepspeed-blocking, meta-llama3, nanotron, nemo, nemo-automodel, nemo@25.09, neuronx, nvidia-bert, "
      "nvidia-bert-te, nvidia-mxnet, "
      "nvidia-mxnet-2019, nvidia-mxnet-2020, paddlenlp, plain, primus, "
      "pytorch-autocast, pytorch-ddp, pytorch-fsdp, torchtitan, torchtitan-async-tp, torchtitan-compiled");
  CHECK_THROWS_WITH(shipped().resolve("gpu", reference("[t4]")), Catch::StartsWith("x.yaml:1:1: expected a gpu"));
  CHECK_THROWS_WITH(Catalog("/nonexistent"), Catch::StartsWith("/nonexistent: no such catalog folder"));
  CHECK(shipped().names("nothing").empty());
}

TEST_CASE("figures are overridden in place, at any depth, and name the place as their source", "[catalog]") {
  Node scenario = reference("node: dgx-a100");
  set_field(scenario, "node.gpu.memory_capacity", "40 GiB");
  NodeType node = node_of(*scenario.find("node"));
  CHECK(node.gpu.memory_capacity == Bytes{40 * 1073741824.0});
  CHECK(node.gpu.name == "a100-sxm4-80gb");
  CHECK(source_of(node.sources, "gpu a100-sxm4-80gb: memory_capacity").source ==
        "given by --set node.gpu.memory_capacity");

  scenario = reference("node: dgx-a100");
  set_field(scenario, "node.gpu.type.nvlink", "16 GB/s");
  set_field(scenario, "node.hca.rate", "400 Gbit/s");
  set_field(scenario, "node.gpu.count", "4");
  node = node_of(*scenario.find("node"));
  CHECK(node.gpu.nvlink == BytesPerSecond{16e9});
  CHECK(node.hca_rate == BytesPerSecond{50e9});
  CHECK(node.gpus == 4);

  const Node in_place =
      reference("node:\n  base: dgx-a100\n  gpu:\n    type:\n      base: h100_sxm5_80gb\n      pcie: 1 GB/s\n");
  node = node_of(*in_place.find("node"));
  CHECK(node.gpu.name == "h100-sxm5-80gb");
  CHECK(node.pcie_rate == BytesPerSecond{1e9});
  CHECK(source_of(node.sources, "gpu h100-sxm5-80gb: pcie").source == "given in x.yaml:6");

  scenario = reference("node: dgx-a100");
  set_field(scenario, "node.gpu.memory_capacty", "40 GiB");
  CHECK_THROWS_WITH(node_of(*scenario.find("node")),
                    "--set node.gpu.memory_capacty: unknown key \"memory_capacty\" in gpu a100-sxm4-80gb; did you "
                    "mean \"memory_capacity\"?");
}

TEST_CASE("a list of figures is one figure with one source", "[catalog]") {
  NodeType node = node_of(reference("dgx-1v"));
  const FigureSource mesh = source_of(node.sources, "node dgx-1v: nvlink.mesh");
  CHECK(mesh.value == "list of 16");
  CHECK(mesh.source.starts_with("NVIDIA/nccl issue 671"));
  CHECK(source_of(node.sources, "node dgx-1v: pcie.switches").unverified);
  Node scenario = reference("node: dgx-1v");
  set_field(scenario, "node.nvlink.mesh", "[[0, 1, 6]]");
  node = node_of(*scenario.find("node"));
  CHECK(node.nvlink_mesh.size() == 1);
  CHECK(source_of(node.sources, "node dgx-1v: nvlink.mesh").source == "given by --set node.nvlink.mesh");
}

TEST_CASE("a node that is written in place is read, and its faults are named", "[catalog]") {
  const std::string lecture =
      "gpu: {count: 4, type: {peak: {fp32: 10 TFLOP/s}, memory_bandwidth: 1 TB/s, memory_capacity: 16 GB}}\n"
      "interconnect: pcie\n";
  const auto read = [&](const std::string& rest) { return node_of(reference(lecture + rest)); };
  const NodeType node = read("pcie: {rate: 16 GB/s, latency: 0 us}\n");
  CHECK(node.name == "custom-node");
  CHECK(node.hcas == 0);
  CHECK(node.pcie_rate == BytesPerSecond{16e9});
  CHECK(node.gpu.efficiency[0].flops == 1);
  CHECK(source_of(node.sources, "gpu custom-gpu: memory_bandwidth").source == "given in x.yaml:1");
  CHECK_THROWS_WITH(read("pcie: {latency: 0 us}\n"),
                    "x.yaml:3:7: node custom-node: pcie: missing key \"rate\": gpu custom-gpu gives none");
  CHECK_THROWS_WITH(read("pcie: {rate: 1 GB/s, latency: 60 s}\n"),
                    "x.yaml:3:31: node custom-node: pcie.latency: more than 10.0 s");
  CHECK_THROWS_WITH(read("pcie: {rate: 1 GB/s, latency: 0 us}\nhca: {count: 2000, rate: 1 GB/s, latency: 0 s}\n"),
                    "x.yaml:4:14: node custom-node: hca.count: 2000 is too many; the most is 1024");
}

TEST_CASE("bases that form a cycle are refused", "[catalog]") {
  const test::TemporaryFolder folder;
  const auto write = [&folder](const std::string& file, const char* text) { folder.write("gpus/" + file, text); };
  write("a.yaml", "base: b\n");
  write("b.yaml", "base: a\n");
  write("c.yaml", "name: d\n");
  const Catalog catalog{folder.path()};
  CHECK(catalog.names("gpu") == std::vector<std::string>{"a", "b", "c"});
  CHECK_THROWS_WITH(catalog.resolve("gpu", reference("a")), Catch::EndsWith("bases of gpu form a cycle"));
  CHECK_THROWS_WITH(catalog.resolve("gpu", reference("c")),
                    Catch::EndsWith("an entry of the catalog is named by its file"));
}

}  // namespace models_test_catalog
