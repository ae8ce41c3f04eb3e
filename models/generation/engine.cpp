#include "models/generation/engine.hpp"

namespace trainyard {
namespace {

constexpr int kMostSequences = 1 << 16, kMostPrefillTokens = 1 << 20;

EngineKernels read_engine_kernels(Fields& fields) {
  EngineKernels kernels;
  kernels.attention_start = fields.seconds("attention_start");
  kernels.attention_rate = fields.number("attention_rate", 1e-3, 1);
  kernels.scan_start = fields.seconds("scan_start");
  kernels.scan_rate = fields.number("scan_rate", 1e-3, 1);
  kernels.all_reduce_start = fields.seconds("all_reduce_start");
  kernels.all_reduce_per_gpu = fields.seconds("all_reduce_per_gpu");
  kernels.all_reduce_most = fields.bytes("all_reduce_most");
  kernels.all_reduce_link_share = fields.number("all_reduce_link_share", 1e-3, 1);
  kernels.nvfp4_start = fields.seconds("nvfp4_start", Seconds{0});
  kernels.block_start = fields.seconds("block_start", Seconds{0});
  kernels.block_expert = fields.seconds("block_expert", Seconds{0});
  kernels.widened_rate = fields.number("widened_rate", 1e-3, 1, 1);
  kernels.widened_start = fields.seconds("widened_start", Seconds{0});
  kernels.widened_token = fields.seconds("widened_token", Seconds{0});
  return kernels;
}

}  // namespace

const EngineKernels& Engine::kernels_on(const Gpu& gpu) const {
  const auto found = kernels.find(gpu.architecture);
  return found == kernels.end() ? kernels.at(default_kernels) : found->second;
}

Engine read_engine(const Node& entry) {
  return read_entry<Engine>("engine", entry, [](Engine& engine, Fields& fields) {
    engine.release = fields.text("release", "");
    engine.host_step = fields.seconds("host_step");
    engine.host_sequence = fields.seconds("host_sequence");
    engine.expert_sequence = fields.seconds("expert_sequence", Seconds{0});
    engine.host_request = fields.seconds("host_request", Seconds{0});
    engine.most_sequences = fields.integer_within<int>("most_sequences", 1, kMostSequences);
    engine.batch_multiple = fields.integer_within<int>("batch_multiple", 1, kMostSequences);
    engine.reserved_tokens = fields.integer_within<int>("reserved_tokens", 1, kMostSequences);
    engine.most_prefill_tokens = fields.integer_within<int>("most_prefill_tokens", 1, kMostPrefillTokens);
    engine.chunked_prefill = fields.integer_within<int>("chunked_prefill", 0, kMostPrefillTokens, 0);
    engine.prefix_sharing = fields.boolean("prefix_sharing", true);
    engine.cuda_graphs = fields.boolean("cuda_graphs", true);
    engine.kernel_launch = fields.seconds("kernel_launch");
    engine.memory_share = fields.number("memory_share", 1e-3, 1);
    engine.shares_free_memory = fields.boolean("shares_free_memory", false);
    engine.reserves_answers = fields.boolean("reserves_answers", false);
    engine.expert_skew = fields.number("expert_skew", 0, 10, 0);
    engine.balanced_skew = fields.number("balanced_skew", 0, 10, 0);
    engine.keeps_all_tokens = fields.boolean("keeps_all_tokens", false);
    engine.reserved_memory = fields.bytes("reserved_memory");
    engine.state_element = fields.bytes("state_element");
    std::vector<std::string> architectures;
    fields.read_required_map("kernels", [&](Fields& all) {
      for (const auto& [name, node] : fields.child("kernels")->fields) {
        architectures.push_back(name);
        all.read_required_map(
            name, [&](Fields& kernels) { engine.kernels[architectures.back()] = read_engine_kernels(kernels); });
      }
    });
    if (engine.kernels.empty()) fields.refuse("kernels", "expected a map by architecture, such as hopper: {...}");
    engine.default_kernels = fields.choice("default_kernels", architectures);
  });
}

}  // namespace trainyard
