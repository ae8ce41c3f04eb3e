#include "models/software/stack.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

/// Reads a time of at most a minute, 0 by default. A longer one is surely a mistake, and sums of picoseconds would
/// overflow.
Seconds overhead(Fields& fields, Key key) {
  constexpr Seconds most{60};
  const Seconds time = fields.seconds(key, Seconds{0});
  if (time > most) fields.refuse(key, "more than " + show(most));
  return time;
}

void read_parallel(SoftwareStack::Parallel& parallel, Fields& fields) {
  parallel.zero_stage = fields.integer<int>({"zero_stage", "ZeRO stage if the plan states none, for example 1."}, 0, 0);
  if (parallel.zero_stage > 3) fields.refuse("zero_stage", "expected 0, 1, 2 or 3");
  fields.read({"sequence", "Whether sequence parallelism is on if tensor parallelism is."}, parallel.sequence);
  fields.read(
      {"overlap_tensor", "Whether exchanges of tensor parallelism overlap with products that do not need them."},
      parallel.overlap_tensor);
  fields.read_map(
      {"user_buffers", "Overlap of exchanges and products by user buffers: a map, for example {overlapped: 0.5}."},
      [&](Fields& buffers) {
        parallel.user_buffers =
            buffers.number({"overlapped", "Share of an exchange that a product hides, for example 0.5."}, 0, 1, 0);
        const double in_fp8 = buffers.number(
            {"overlapped_fp8",
             "Share of an exchange that a product in fp8 hides, for example 0.3. Default: as overlapped."},
            0, 1, parallel.user_buffers);
        parallel.user_buffers_fp8 =
            parallel.user_buffers == 0 ? 0 : in_fp8;  // a stack may set `overlapped: 0` on its base
      });
  fields.read(
      {"overlap_parameters", "Whether parameters are gathered during the next forward pass with ZeRO stages 1 and 2."},
      parallel.overlap_parameters);
  fields.read({"broadcast_parameters",
               "Whether ranks own whole tensors and broadcast them after their update with ZeRO stages 1 and 2. false: "
               "all gather equal shares, as they always do where collectives are not modelled."},
              parallel.broadcast_parameters);
  fields.read(
      {"all_reduce_gradients",
       "Whether all replicas all-reduce gradients with ZeRO stage 1. false: each rank gets the sums of its share "
       "alone."},
      parallel.all_reduce_gradients);
  fields.read({"overlap_copies",
               "Whether the groups of plan.data_parallel.zero_group, each with a copy of the states, sum their "
               "gradients during the backward pass. false: it waits for each sum."},
              parallel.overlap_copies);
  fields.read(
      {"overlap_experts", "Whether a forward and a backward pass alternate, so that exchanges of experts are hidden."},
      parallel.overlap_experts);
  fields.read({"overlap_pipeline", "Whether stages go on while their messages are sent."}, parallel.overlap_pipeline);
  fields.read({"scatter_gather", "Whether each tensor rank sends a part of the tensor to the next stage."},
              parallel.scatter_gather);
}

void read_host(SoftwareStack::Host& host, Fields& fields) {
  fields.read({"runs_ahead", "Whether the host launches kernels before the GPU reaches them."}, host.runs_ahead);
  host.micro_batch =
      overhead(fields, {"micro_batch", "Host time at the beginning of each pass of a micro-batch, for example 1 ms."});
  fields.read(
      {"waits_for_messages", "Whether the host launches a stage's pass after the message from the other stage."},
      host.waits_for_messages);
  fields.read({"waits_for_routing", "Whether the host reads the rows of each expert before it launches the experts."},
              host.waits_for_routing);
  fields.read({"cuda_graphs", "Whether kernels between two exchanges are launched together."}, host.cuda_graphs);
  fields.read({"launch_blocking", "Whether the host waits for each kernel's end (CUDA_LAUNCH_BLOCKING=1)."},
              host.launch_blocking);
  if (host.launch_blocking && host.cuda_graphs)
    fields.refuse("launch_blocking", "not with cuda_graphs, which launch kernels together");
  for (const char* key : {"micro_batch", "waits_for_messages", "waits_for_routing", "cuda_graphs", "launch_blocking"})
    if (fields.has(key) && !host.runs_ahead) fields.refuse(key, "only for a host with runs_ahead");
}

void read_slowdowns(SoftwareStack::Slowdowns& slowdowns, Fields& fields) {
  constexpr double least = 0.1, most = 10;
  const auto read = [&](Key key, double& value) { fields.read(key, value, least, most); };
  read({"elementwise", "Ratio of the time of kernels bound by memory, for example 1.1."}, slowdowns.elementwise);
  read({"optimizer", "Ratio of the time of the update, for example 1.1."}, slowdowns.optimizer);
  read({"products", "Ratio of the time of matrix products, for example 1.05."}, slowdowns.products);
  read({"attention", "Ratio of the time of attention, for example 1.1."}, slowdowns.attention);
  read({"exchanges", "Ratio of the time of NCCL's exchanges in a layer, for example 1.2."}, slowdowns.exchanges);
  read({"rowwise_fp8",
        "Ratio of the time of products in fp8 with a scale for each row to one for each tensor, for example 1.1."},
       slowdowns.rowwise_fp8);
  if (fields.has("overlapped"))
    slowdowns.overlapped = fields.number(
        {"overlapped", "Ratio of the time of kernels during communication, for example 1.1. Default: the GPU's."}, 1,
        most);
}

void read_fusions(Fields& fields, Fusions& f) {
  fields.read({"flash_attention", "Whether one kernel computes attention and never writes the scores."},
              f.flash_attention);
  fields.read({"fused_softmax", "Whether scale, mask and softmax are one kernel without flash attention."},
              f.fused_softmax);
  fields.read({"fused_loss", "Whether one kernel reads the logits and writes their gradient in place."}, f.fused_loss);
  fields.read({"fused_gated_activation", "Whether one kernel computes silu(gate) · up."}, f.fused_gated_activation);
  fields.read({"experts_in_turn", "Whether products of a rank's experts are separate kernels, one after another."},
              f.experts_in_turn);
  fields.read({"fused_projections",
               "Whether query, key and value have one weight and product, and the gate and up projections another."},
              f.fused_projections);
  fields.read({"fused_rotary", "Whether one kernel rotates queries and keys."}, f.fused_rotary);
  fields.read(
      {"scales_fused_rotary", "Whether the kernel that rotates queries and keys also scales them, as YaRN does."},
      f.scales_fused_rotary);
  fields.read({"fused_norm_gradients", "Whether one kernel computes the gradients of a norm's input and weights."},
              f.fused_norm_gradients);
  fields.read({"fused_bias_dropout_add", "Whether one kernel adds a branch's bias, drops out and adds the residual."},
              f.fused_bias_dropout_add);
  fields.read(
      {"fused_gradient_accumulation",
       "Whether products of weight gradients add them to those of earlier micro-batches; needs gradient_precision."},
      f.fused_gradient_accumulation);
  fields.read({"lasting_gather_buffer",
               "Whether the buffer for the gathered input of the output projection stays allocated (Megatron-LM)."},
              f.lasting_gather_buffer);
  fields.read(
      {"early_stop",
       "Whether full recomputation ends with the last tensor that the backward pass reads (PyTorch's checkpoint)."},
      f.early_stop);
  fields.read(
      {"autocast",
       "Whether parameters and the residual stream are in fp32 and are cast before each product (torch.autocast)."},
      f.autocast);
  fields.read({"eager_heads",
               "Whether queries and keys are rotated by three eager kernels, and keys and values copied for every head "
               "(Meta's Llama)."},
              f.eager_heads);
  fields.read({"aligned_tensor_cores",
               "Whether products of unfused attention leave the tensor cores if heads are no multiple of 16 bytes wide "
               "(cuBLAS 11)."},
              f.aligned_tensor_cores);
  fields.read({"fp8_activation_input", "Whether inputs of activations are kept in fp8 if products are in fp8."},
              f.fp8_activation_input);
  fields.read({"fp8_attention", "Whether attention reads and keeps its tensors in fp8 if products are in fp8."},
              f.fp8_attention);
  fields.read({"fp8_norms", "Whether norms before products in fp8 write fp8 if the scale is known before."},
              f.fp8_norms);
  fields.read({"fused_operations",
               "Whether gated activations write operands in fp8 and products of adapters add in place (te.ops)."},
              f.fused_operations);
  f.fp8_scaling = fields.one_of({"fp8_scaling", "Scaling of operands in fp8 if a plan states none."}, fp8_scalings(),
                                f.fp8_scaling);
  constexpr double most_launches = 10000;
  fields.read(
      {"expert_layer_launches",
       "Number of kernels that the host launches for a forward pass of routed experts in fp8, for example 150."},
      f.expert_layer_launches, 0, most_launches);
  fields.read({"expert_launches", "Number of further kernel launches for each expert of a rank, for example 3."},
              f.expert_launches, 0, most_launches);
  fields.read({"expert_launches_in_16_bits",
               "Whether expert_layer_launches and expert_launches count in 16 bits too: the host launches the products "
               "of one expert after the other."},
              f.expert_launches_in_16_bits);
  fields.read({"paired_launches",
               "Number of further kernel launches for routed experts in fp8 whose passes alternate "
               "(plan.expert_parallel.overlap), for example 140."},
              f.paired_launches, 0, most_launches);
  fields.read({"fp8_linear_launches",
               "Number of kernels that the host launches for a linear layer in fp8 in each pass, for example 5."},
              f.fp8_linear_launches, 0, most_launches);
  fields.read(
      {"weighted_expert_activation",
       "Whether an expert's activation multiplies by the router's weights, so that its output need not be kept."},
      f.weighted_expert_activation);
  f.batch_norm = fields.one_of({"fused_batch_norm",
                                "Kernels that are fused with batch norms: the activation, the convolution before "
                                "(statistics), or those before and after (convolution). Default: none."},
                               {"none", "activation", "statistics", "convolution"}, BatchNormFusion::none);
  fields.read({"vocabulary_multiple",
               "Number of which a multiple, for each tensor rank, is the padded vocabulary, for example 128."},
              f.vocabulary_multiple, 1, 65536);
}

void read_memory(Fields& fields, SoftwareStack& stack) {
  stack.fp8_maxima_of_stage = fields.choice({"fp8_maxima",
                                             "Ranks that agree on maxima of tensors in fp8 with delayed scales: all of "
                                             "a stage, or those that split a layer (tensor). Default: stage."},
                                            {"stage", "tensor"}, "stage") == "stage";
  stack.workspace =
      fields.bytes({"workspace", "Memory of libraries' workspaces on a device, for example 64 MiB."}, Bytes{0});
  stack.head_workspace = fields.bytes(
      {"head_workspace", "Further workspace of stages with the last layer or with experts, for example 1 GiB."},
      Bytes{0});
  stack.expert_workspace =
      fields.bytes({"expert_workspace", "Further workspace of stages with experts, for example 1 GiB."}, Bytes{0});
  stack.cast_accumulation =
      fields.boolean({"cast_accumulation",
                      "Whether a separate kernel casts gradients before they are added (DeepSpeed's BF16_Optimizer)."},
                     false);
  if (fields.has("gradient_precision"))
    stack.gradient_precision =
        parse_precision(fields.choice({"gradient_precision",
                                       "Number format of gradients that are summed over micro-batches and replicas, "
                                       "for example fp32. Default: the network's."},
                                      {"fp32", "fp16", "bf16", "fp64"}));
  fields.read({"master_parameters",
               "Whether all stored parameters are in fp32 and are cast when they are used (FSDP's mixed precision)."},
              stack.master_parameters);
  if (fields.has("optimizer_states"))
    stack.optimizer_states = parse_precision(
        fields.choice({"optimizer_states",
                       "Precision of the optimizer's states if a plan states none, for example bf16. Default: fp32."},
                      {"fp32", "bf16", "fp16", "fp8"}));
  fields.read(
      {"master_weights",
       "Whether 16-bit parameters have a copy in fp32 that the optimizer updates, if a plan does not state it."},
      stack.master_weights);
  stack.optimizer_traffic = fields.bytes(
      {"optimizer_traffic",
       "Bytes that an update reads and writes for each parameter, for example 20 B. Default: the optimizer's."},
      Bytes{0});
  fields.read({"dummy_weight_gradients",
               "Whether autograd gets dummy tensors for weight gradients that products add up (TransformerEngine)."},
              stack.dummy_weight_gradients);
  fields.read({"reserved_memory",
               "Ratio of the memory that the allocator reserves to the most that is allocated, for example 1.05."},
              stack.reserved_memory, 1, 10);
  fields.read({"reserved_memory_spread",
               "Standard deviation of the logarithm of that ratio, for example 0.07; intervals of memory widen by it."},
              stack.reserved_memory_spread, 0, 1);
  const bool bare =
      fields.boolean({"bare_memory", "Whether the memory of CUDA's context and NCCL's buffers is left out."},
                     false);  // neither context nor buffers of NCCL
  if (bare)
    stack.context = stack.communicator = Bytes{0};
  else if (fields.has("context"))
    stack.context = fields.bytes({"context", "Memory of CUDA's context and libraries on a device, for example 1 GiB."});
  if (!bare)
    fields.read({"communicator", "Memory of NCCL's buffers for each communicator of a rank, for example 600 MiB."},
                stack.communicator);
  fields.read({"deepspeed_memory", "Whether the memory of DeepSpeed's pipeline and 16-bit optimizers counts."},
              stack.deepspeed_memory);
  fields.read({"recomputed_gradients",
               "Size of the gradients inside a recomputed block, relative to its activations, for example 1."},
              stack.recomputed_gradients, 0, 10);
  fields.read(
      {"keeps_stage_gradient", "Whether the pipeline keeps the last gradient that it sent to the previous stage."},
      stack.keeps_stage_gradient);
  fields.read({"frees_gradients",
               "Whether gradients take memory from the backward pass that makes them to the next step, as PyTorch's "
               "zero_grad has it, which sets them to none. Otherwise they have memory throughout."},
              stack.frees_gradients);
  if (stack.fused_gradient_accumulation && !stack.gradient_precision)
    fields.refuse("fused_gradient_accumulation",
                  "needs the precision of the summed gradients; expected gradient_precision: fp32, bf16 or fp16");
  if (stack.gradient_precision) stack.accumulated_element = element_size(*stack.gradient_precision);
  if (stack.dummy_weight_gradients && !stack.fused_gradient_accumulation)
    fields.refuse("dummy_weight_gradients", "only with fused_gradient_accumulation");
}

/// Reads a size, or `{elements, elements_a_replica}`: Megatron-Core's rule, for gradients in the stack's precision.
void read_bucket(SoftwareStack& stack, Fields& fields) {
  const Node& node = fields.required_child({"bucket",
                                            "Size of a gradient bucket if the plan states none, for example 25 MiB; or "
                                            "{elements, elements_a_replica}, Megatron-Core's rule."});
  if (node.kind != Node::Kind::map || node.find("value")) {
    stack.bucket = fields.bytes("bucket");
    stack.first_bucket =
        fields.bytes({"first_bucket", "Size of the first gradient bucket if the plan states none, for example 1 MiB."},
                     stack.bucket);
    return;
  }
  constexpr double most = 1e15;
  fields.read_map("bucket", [&](Fields& rule) {
    SoftwareStack::BucketRule& sizes = stack.bucket_rule.emplace();
    sizes.elements = rule.number({"elements", "Least number of elements of a bucket, for example 40000000."}, 1, most);
    sizes.elements_a_replica =
        rule.number({"elements_a_replica",
                     "Number of elements of a bucket for each replica, if that is more, for example 1000000."},
                    0, most);
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
  const std::string version =
      fields.text({"nccl_version", "Version of NCCL, for example 2.27."}, choice.version.text());
  try {
    choice.version = parse_nccl_version(version);
  } catch (const UserError& e) {
    fields.refuse("nccl_version", e.what());
  }
  fields.read({"nccl_pxn", "Whether NCCL sends through the GPU beside the adapter (false: NCCL_PXN_DISABLE=1)."},
              choice.pxn);
}

}  // namespace

void SoftwareStack::Slowdowns::slow_down(Gpu& gpu) const {
  const auto efficiency = [&gpu](Kernel kernel) -> Gpu::Efficiency& {
    return gpu.efficiency[static_cast<std::size_t>(kernel)];
  };
  efficiency(Kernel::elementwise).memory /= elementwise;
  efficiency(Kernel::strided).memory /= elementwise;
  efficiency(Kernel::embedding).memory /= elementwise;
  efficiency(Kernel::optimizer).memory /= optimizer;
  efficiency(Kernel::gemm).flops /= products;
  gpu.gemm.clock /= products;
  // Without times by shape the memory's share stays: the catalog's only such slow-down was fitted so (llm-foundry).
  for (const Kernel kernel : {Kernel::attention, Kernel::attention_backward}) efficiency(kernel).flops /= attention;
  AttentionModel& shapes = gpu.attention;
  for (double* rate : {&shapes.forward, &shapes.backward, &shapes.memory, &shapes.softmax, &shapes.fp8.forward,
                       &shapes.fp8.backward, &shapes.fp8_block.forward, &shapes.fp8_block.backward})
    *rate /= attention;
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
  fields.read({"nccl", "Whether exchanges are NCCL's; false: rings of single messages, as in MPI or Gloo."},
              stack.nccl);
  read_nccl(stack, fields);
  stack.kernel_dispatch = overhead(fields, {"kernel_dispatch", "Host time to issue one kernel, for example 4 us."});
  stack.collective_launch =
      overhead(fields, {"collective_launch",
                        "Time from a gradient that is ready to the first message of its exchange, for example 20 us."});
  stack.network_step =
      overhead(fields, {"network_step", "Software's latency of a message between nodes, for example 2 us."});
  if (fields.has("slice_step"))
    stack.slice_step = overhead(
        fields, {"slice_step", "Software's latency of a message between slices of chips, for example 0.4 ms."});
  stack.cycle_time = overhead(
      fields,
      {"cycle_time",
       "Period in which a coordinator starts exchanges that are ready, for example 1 ms (Horovod); 0: at once."});
  stack.step_overhead =
      overhead(fields, {"step_overhead", "Host time of a step that overlaps with nothing, for example 2 ms."});
  fields.read({"whole_tensors", "Whether gradient buckets hold whole tensors (PyTorch DDP)."}, stack.whole_tensors);
  fields.read({"overlap", "Whether buckets are sent while the backward pass goes on."}, stack.overlap);
  fields.read({"gradient_bucket_copy", "Whether buckets are separate buffers, to which gradients are copied."},
              stack.gradient_bucket_copy);
  stack.bucket_buffers = fields.integer_within<int>(
      {"bucket_buffers", "Number of bucket buffers that exist at the same time, for example 2; 0: all."}, 0, 1 << 20,
      0);
  fields.read({"host_buckets", "Whether bucket buffers are in host memory, and the CPU copies."}, stack.host_buckets);
  if (stack.host_buckets && !stack.gradient_bucket_copy)
    fields.refuse("host_buckets", "only with gradient_bucket_copy");
  fields.read_map({"parallel", "Defaults of the plan's parallel keys: a map, for example {sequence: true}."},
                  [&](Fields& parallel) { read_parallel(stack.parallel, parallel); });
  read_fusions(fields, stack);
  read_memory(fields, stack);
  read_bucket(stack, fields);
  fields.read_map({"host", "Process that launches a rank's kernels: a map, for example {cuda_graphs: true}."},
                  [&](Fields& host) { read_host(stack.host, host); });
  fields.read_map(
      {"slowdowns",
       "Ratios of times in training to those of single kernels in tests: a map, for example {exchanges: 1.2}."},
      [&](Fields& slowdowns) { read_slowdowns(stack.slowdowns, slowdowns); });
  fields.read_map(
      {"anchor",
       "The steps to which `trainyard anchor` fitted the stack, and the doubt that they left. A step that is unlike "
       "them has more doubt. For example {spread: 0.08, devices: 16, gpu: h100-sxm5, precisions: [bf16]}."},
      [&](Fields& anchor) {
        stack.anchor.spread = anchor.number(
            {"spread", "Standard deviation of ln(measured / predicted) of steps like these, for example 0.08."}, 0.01,
            1, 0.0);
        stack.anchor.devices = anchor.number(
            {"devices", "Most devices of a step that the stack is anchored to, for example 64."}, 1, 1e9, 1.0);
        stack.anchor.stack =
            anchor.text({"stack", "The stack from which the fit started, for example torchtitan."}, "");
        stack.anchor.gpu = anchor.text(
            {"gpu", "GPU of these steps, for example h100-sxm5. Default: none, so that each GPU adds doubt."}, "");
        stack.anchor.networks =
            anchor.texts({"networks", "Kinds of networks of these steps, for example [dense decoders]."});
        stack.anchor.precisions = anchor.texts({"precisions", "Precisions of these steps, for example [bf16, fp8]."});
        stack.anchor.features =
            anchor.texts({"features", "Parts of these steps that no shipped measurement has, for example [offload]."});
        anchor.read_map({"path",
                         "Largest share of such a step on its critical path, by part: a map, for example {memory: 0.2, "
                         "network: 0.1}."},
                        [&](Fields& path) {
                          for (std::size_t part = 0; part < kPathParts.size(); ++part)
                            stack.anchor.path[part] =
                                path.number({kPathParts[part], "Share of the step, for example 0.1."}, 0, 1, 0.0);
                        });
        stack.anchor.slow_host = anchor.number(
            {"slow_host", "Largest multiple of such a step that a slow host would need to launch it, for example 0.4."},
            0, 1e9, 0.0);
        stack.anchor.wide_tensor = anchor.boolean(
            {"wide_tensor", "true: these steps have tensor groups across nodes, or without an NVSwitch."}, false);
      });
  fields.read({"long_runs", "Whether runs are so long that power limits the clock of chips."}, stack.long_runs);
  stack.attention_kernel = fields.text(
      {"attention_kernel", "Kernel of flash attention, for example te-cudnn (trainyard list attentions)."}, "");
  stack.attention_kernel_place = fields.place_of("attention_kernel");
  stack.convolutions = fields.number(
      {"convolutions", "Share of the peak that convolutions sustain, for example 0.5; 0: the chip's own share."}, 0, 1,
      0);
  fields.finish();
  stack.sources = figure_sources(entry, fields.what());
  return stack;
}

}  // namespace trainyard
