#include "models/software/stack.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

/// Reads a time of at most a minute, 0 by default. A longer one is surely a mistake, and sums of picoseconds would
/// overflow.
Seconds overhead(Fields& fields, const char* key) {
  constexpr Seconds most{60};
  const Seconds time = fields.seconds(key, Seconds{0});
  if (time > most) fields.refuse(key, "more than " + show(most));
  return time;
}

void read_parallel(SoftwareStack::Parallel& parallel, Fields& fields) {
  parallel.zero_stage = fields.integer<int>("zero_stage", 0, 0);
  if (parallel.zero_stage > 3) fields.refuse("zero_stage", "expected 0, 1, 2 or 3");
  parallel.sequence = fields.boolean("sequence", parallel.sequence);
  parallel.overlap_tensor = fields.boolean("overlap_tensor", parallel.overlap_tensor);
  fields.read_map("user_buffers", [&](Fields& buffers) {
    parallel.user_buffers = buffers.number("overlapped", 0, 1, 0);
    const double in_fp8 = buffers.number("overlapped_fp8", 0, 1, parallel.user_buffers);
    parallel.user_buffers_fp8 = parallel.user_buffers == 0 ? 0 : in_fp8;  // a stack may set `overlapped: 0` on its base
  });
  parallel.overlap_parameters = fields.boolean("overlap_parameters", parallel.overlap_parameters);
  parallel.overlap_experts = fields.boolean("overlap_experts", parallel.overlap_experts);
  parallel.overlap_pipeline = fields.boolean("overlap_pipeline", parallel.overlap_pipeline);
  parallel.scatter_gather = fields.boolean("scatter_gather", parallel.scatter_gather);
}

void read_host(SoftwareStack::Host& host, Fields& fields) {
  host.runs_ahead = fields.boolean("runs_ahead", host.runs_ahead);
  host.micro_batch = overhead(fields, "micro_batch");
  host.waits_for_messages = fields.boolean("waits_for_messages", host.waits_for_messages);
  host.waits_for_routing = fields.boolean("waits_for_routing", host.waits_for_routing);
  host.cuda_graphs = fields.boolean("cuda_graphs", host.cuda_graphs);
  host.launch_blocking = fields.boolean("launch_blocking", host.launch_blocking);
  if (host.launch_blocking && host.cuda_graphs)
    fields.refuse("launch_blocking", "not with cuda_graphs, which launch kernels together");
  for (const char* key : {"micro_batch", "waits_for_messages", "waits_for_routing", "cuda_graphs", "launch_blocking"})
    if (fields.has(key) && !host.runs_ahead) fields.refuse(key, "only for a host with runs_ahead");
}

void read_slowdowns(SoftwareStack::Slowdowns& slowdowns, Fields& fields) {
  constexpr double least = 0.1, most = 10;
  const auto read = [&](const char* key, double& value) { value = fields.number(key, least, most, value); };
  read("elementwise", slowdowns.elementwise);
  read("optimizer", slowdowns.optimizer);
  read("products", slowdowns.products);
  read("attention", slowdowns.attention);
  read("exchanges", slowdowns.exchanges);
  read("rowwise_fp8", slowdowns.rowwise_fp8);
  if (fields.has("overlapped")) slowdowns.overlapped = fields.number("overlapped", 1, most);
}

void read_fusions(Fields& fields, Fusions& f) {
  const auto read = [&fields](const char* key, bool& value) { value = fields.boolean(key, value); };
  read("flash_attention", f.flash_attention);
  read("fused_softmax", f.fused_softmax);
  read("fused_loss", f.fused_loss);
  read("fused_gated_activation", f.fused_gated_activation);
  read("experts_in_turn", f.experts_in_turn);
  read("fused_projections", f.fused_projections);
  read("fused_rotary", f.fused_rotary);
  read("scales_fused_rotary", f.scales_fused_rotary);
  read("fused_norm_gradients", f.fused_norm_gradients);
  read("fused_bias_dropout_add", f.fused_bias_dropout_add);
  read("fused_gradient_accumulation", f.fused_gradient_accumulation);
  read("lasting_gather_buffer", f.lasting_gather_buffer);
  read("early_stop", f.early_stop);
  read("autocast", f.autocast);
  read("eager_heads", f.eager_heads);
  read("aligned_tensor_cores", f.aligned_tensor_cores);
  read("fp8_activation_input", f.fp8_activation_input);
  read("fp8_attention", f.fp8_attention);
  read("fp8_norms", f.fp8_norms);
  read("fused_operations", f.fused_operations);
  f.fp8_scaling = fields.one_of("fp8_scaling", fp8_scalings(), f.fp8_scaling);
  constexpr double most_launches = 10000;
  f.expert_layer_launches = fields.number("expert_layer_launches", 0, most_launches, f.expert_layer_launches);
  f.expert_launches = fields.number("expert_launches", 0, most_launches, f.expert_launches);
  f.fp8_linear_launches = fields.number("fp8_linear_launches", 0, most_launches, f.fp8_linear_launches);
  read("weighted_expert_activation", f.weighted_expert_activation);
  f.batch_norm =
      fields.one_of("fused_batch_norm", {"none", "activation", "statistics", "convolution"}, BatchNormFusion::none);
  f.vocabulary_multiple = fields.integer_within<int>("vocabulary_multiple", 1, 65536, f.vocabulary_multiple);
}

void read_memory(Fields& fields, SoftwareStack& stack) {
  stack.fp8_maxima_of_stage = fields.choice("fp8_maxima", {"stage", "tensor"}, "stage") == "stage";
  stack.workspace = fields.bytes("workspace", Bytes{0});
  stack.head_workspace = fields.bytes("head_workspace", Bytes{0});
  stack.expert_workspace = fields.bytes("expert_workspace", Bytes{0});
  stack.cast_accumulation = fields.boolean("cast_accumulation", false);
  if (fields.has("gradient_precision"))
    stack.gradient_precision = parse_precision(fields.choice("gradient_precision", {"fp32", "fp16", "bf16", "fp64"}));
  stack.master_parameters = fields.boolean("master_parameters", stack.master_parameters);
  if (fields.has("optimizer_states"))
    stack.optimizer_states = parse_precision(fields.choice("optimizer_states", {"fp32", "bf16", "fp16", "fp8"}));
  stack.master_weights = fields.boolean("master_weights", stack.master_weights);
  stack.optimizer_traffic = fields.bytes("optimizer_traffic", Bytes{0});
  stack.dummy_weight_gradients = fields.boolean("dummy_weight_gradients", stack.dummy_weight_gradients);
  stack.reserved_memory = fields.number("reserved_memory", 1, 10, stack.reserved_memory);
  const bool bare = fields.boolean("bare_memory", false);  // neither context nor buffers of NCCL
  if (bare)
    stack.context = stack.communicator = Bytes{0};
  else if (fields.has("context"))
    stack.context = fields.bytes("context");
  if (!bare) stack.communicator = fields.bytes("communicator", stack.communicator);
  stack.deepspeed_memory = fields.boolean("deepspeed_memory", stack.deepspeed_memory);
  stack.recomputed_gradients = fields.number("recomputed_gradients", 0, 10, stack.recomputed_gradients);
  stack.keeps_stage_gradient = fields.boolean("keeps_stage_gradient", stack.keeps_stage_gradient);
  if (stack.fused_gradient_accumulation && !stack.gradient_precision)
    fields.refuse("fused_gradient_accumulation",
                  "needs the precision of the summed gradients; expected gradient_precision: fp32, bf16 or fp16");
  if (stack.gradient_precision) stack.accumulated_element = element_size(*stack.gradient_precision);
  if (stack.dummy_weight_gradients && !stack.fused_gradient_accumulation)
    fields.refuse("dummy_weight_gradients", "only with fused_gradient_accumulation");
}

/// Reads a size, or `{elements, elements_a_replica}`: Megatron-Core's rule, for gradients in the stack's precision.
void read_bucket(SoftwareStack& stack, Fields& fields) {
  const Node& node = fields.required_child("bucket");
  if (node.kind != Node::Kind::map || node.find("value")) {
    stack.bucket = fields.bytes("bucket");
    stack.first_bucket = fields.bytes("first_bucket", stack.bucket);
    return;
  }
  constexpr double most = 1e15;
  fields.read_map("bucket", [&](Fields& rule) {
    SoftwareStack::BucketRule& sizes = stack.bucket_rule.emplace();
    sizes.elements = rule.number("elements", 1, most);
    sizes.elements_a_replica = rule.number("elements_a_replica", 0, most);
  });
  const auto refuse = [&](const char* why) { fields.refuse("bucket", fmt::format("a number of elements {}", why)); };
  if (!stack.gradient_precision) refuse("needs the precision of the gradients; expected gradient_precision");
  if (fields.has("first_bucket"))
    refuse("holds for all buckets; expected no first_bucket, or a size such as bucket: 25 MiB");
  if (stack.bucket_buffers > 0) refuse("is not modelled with bucket_buffers; expected a size such as bucket: 25 MiB");
  stack.bucket = stack.first_bucket = stack.default_bucket(1);
}

/// Reads `nccl_version`, and `nccl_pxn`: false is like NCCL_PXN_DISABLE=1.
void read_nccl(SoftwareStack& stack, Fields& fields) {
  for (const char* key : {"nccl_version", "nccl_pxn"}) fields.require_condition(key, stack.nccl, "with nccl: true");
  NcclChoice& choice = stack.nccl_choice;
  const std::string version = fields.text("nccl_version", choice.version.text());
  try {
    choice.version = parse_nccl_version(version);
  } catch (const UserError& e) {
    fields.refuse("nccl_version", e.what());
  }
  choice.pxn = fields.boolean("nccl_pxn", choice.pxn);
}

}  // namespace

void SoftwareStack::Slowdowns::slow_down(Gpu& gpu) const {
  const auto efficiency = [&gpu](Kernel kernel) -> Gpu::Efficiency& {
    return gpu.efficiency[static_cast<std::size_t>(kernel)];
  };
  efficiency(Kernel::elementwise).memory /= elementwise;
  efficiency(Kernel::embedding).memory /= elementwise;
  efficiency(Kernel::optimizer).memory /= optimizer;
  efficiency(Kernel::gemm).flops /= products;
  gpu.gemm.clock /= products;
  for (const Kernel kernel : {Kernel::attention, Kernel::attention_backward}) efficiency(kernel).flops /= attention;
  for (double* share : {&gpu.attention.forward, &gpu.attention.backward, &gpu.attention.memory}) *share /= attention;
  if (overlapped > 0) gpu.compute_while_communicating = 1 / overlapped;
}

Bytes SoftwareStack::default_bucket(double replicas) const {
  if (!bucket_rule) return bucket;
  return element_size(*gradient_precision) *
         std::max(bucket_rule->elements, bucket_rule->elements_a_replica * replicas);
}

SoftwareStack read_stack(const Node& entry) {
  Fields fields(entry, entry_title("stack", entry));
  SoftwareStack stack;
  stack.name = fields.text("name", "custom-stack");
  stack.description = fields.text("description", "");
  fields.child("sources");
  stack.nccl = fields.boolean("nccl", stack.nccl);
  read_nccl(stack, fields);
  stack.kernel_dispatch = overhead(fields, "kernel_dispatch");
  stack.collective_launch = overhead(fields, "collective_launch");
  stack.network_step = overhead(fields, "network_step");
  stack.cycle_time = overhead(fields, "cycle_time");
  stack.step_overhead = overhead(fields, "step_overhead");
  stack.whole_tensors = fields.boolean("whole_tensors", stack.whole_tensors);
  stack.overlap = fields.boolean("overlap", stack.overlap);
  stack.gradient_bucket_copy = fields.boolean("gradient_bucket_copy", stack.gradient_bucket_copy);
  stack.bucket_buffers = fields.integer_within<int>("bucket_buffers", 0, 1 << 20, 0);
  stack.host_buckets = fields.boolean("host_buckets", stack.host_buckets);
  if (stack.host_buckets && !stack.gradient_bucket_copy)
    fields.refuse("host_buckets", "only with gradient_bucket_copy");
  fields.read_map("parallel", [&](Fields& parallel) { read_parallel(stack.parallel, parallel); });
  read_fusions(fields, stack);
  read_memory(fields, stack);
  read_bucket(stack, fields);
  fields.read_map("host", [&](Fields& host) { read_host(stack.host, host); });
  fields.read_map("slowdowns", [&](Fields& slowdowns) { read_slowdowns(stack.slowdowns, slowdowns); });
  fields.read_map("anchor", [&](Fields& anchor) {
    stack.anchor.spread = anchor.number("spread", 0.01, 1, 0.0);
    stack.anchor.devices = anchor.number("devices", 1, 1e9, 1.0);
    stack.anchor.stack = anchor.text("stack", "");
    stack.anchor.gpu = anchor.text("gpu", "");
    stack.anchor.networks = anchor.texts("networks");
    stack.anchor.precisions = anchor.texts("precisions");
    stack.anchor.features = anchor.texts("features");
    stack.anchor.exchange = anchor.number("exchange", 0, 1, 0.0);
    stack.anchor.slow_host = anchor.number("slow_host", 0, 1e9, 0.0);
    stack.anchor.wide_tensor = anchor.boolean("wide_tensor", false);
  });
  stack.long_runs = fields.boolean("long_runs", stack.long_runs);
  stack.attention_kernel = fields.text("attention_kernel", "");
  stack.attention_kernel_place = fields.place_of("attention_kernel");
  stack.convolutions = fields.number("convolutions", 0, 1, 0);
  fields.finish();
  stack.sources = figure_sources(entry, fields.what());
  return stack;
}

}  // namespace trainyard
