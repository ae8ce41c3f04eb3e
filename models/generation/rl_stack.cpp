#include "models/generation/rl_stack.hpp"

#include <algorithm>
#include <cmath>

#include "models/hardware/kernel_shapes.hpp"

namespace trainyard {

PublishedTensors published_tensors(const NetworkEntry& model) {
  const TemporaryShapes temporary;
  PublishedTensors tensors;
  if (const TransformerConfig* config = model.transformer()) {
    tensors.layers = static_cast<double>(config->num_hidden_layers);
    tensors.experts = static_cast<double>(config->experts.count);
  }
  for (const Layer& layer : make_network(model, 1, 1, Precision::bf16).layers) {
    const bool packs_experts = std::ranges::any_of(
        layer.parameters, [](const ParameterTensor& tensor) { return tensor.expert && tensor.in == 0; });
    for (const ParameterTensor& tensor : layer.parameters)
      tensors.count += tensor.expert && !packs_experts ? std::round(tensor.elements / (tensor.in * tensor.out)) : 1;
  }
  return tensors;
}

Seconds WeightTransfer::time(Bytes policy, const PublishedTensors& tensors, int gpus, Seconds network) const {
  const double doublings = std::log2(static_cast<double>(std::max(gpus, doubled_from)) / doubled_from);
  const Seconds of_one = tensor + tensor_layer * tensors.layers + tensor_expert * tensors.experts;
  const Seconds library = of_one * tensors.count + (rate.value > 0 ? policy / rate : Seconds{});
  return start + std::max(library, network) + per_doubling * doublings;
}

Seconds LoopController::pass_time(double tokens, int ranks) const {
  return rate.value > 0 ? tokens * (pass_token + result_token * ranks) / rate : Seconds{};
}

Seconds LoopController::update_time(double tokens) const {
  return rate.value > 0 ? tokens * update_token / rate : Seconds{};
}

Seconds LoopController::answer_time(double tokens) const {
  return rate.value > 0 ? tokens * answer_token / rate : Seconds{};
}

WeightTransfer read_weight_transfer(const Node& entry) {
  return read_entry<WeightTransfer>("weight-transfer", entry, [](WeightTransfer& transfer, Fields& fields) {
    transfer.start = fields.seconds("start", Seconds{0});
    const bool has_tensor = fields.has("tensor");
    transfer.tensor = fields.seconds("tensor", Seconds{0});
    transfer.tensor_layer = fields.seconds("tensor_layer", Seconds{0});
    transfer.tensor_expert = fields.seconds("tensor_expert", Seconds{0});
    transfer.rate = has_tensor ? fields.bandwidth("rate", BytesPerSecond{0}) : fields.bandwidth("rate");
    transfer.per_doubling = fields.seconds("per_doubling", Seconds{0});
    transfer.quantized = fields.boolean("quantized", false);
    transfer.within_gpus = fields.boolean("within_gpus", false);
    transfer.doubled_from = fields.integer_within<int>("doubled_from", 1, 1 << 20, 1);
  });
}

RlStack read_rl_stack(const Node& entry) {
  return read_entry<RlStack>("rl-stack", entry, [](RlStack& stack, Fields& fields) {
    stack.loop_sample = fields.seconds("loop_sample");
    stack.reload = fields.seconds("reload");
    stack.pack_fill = fields.number("pack_fill", 0.01, 1, 1);
    stack.dynamic_batches = fields.boolean("dynamic_batches", false);
    fields.read_map("controller", [&stack](Fields& controller) {
      stack.controller.rate = controller.bandwidth("rate");
      stack.controller.pass_token = controller.bytes("pass_token");
      stack.controller.update_token = controller.bytes("update_token");
      stack.controller.result_token = controller.bytes("result_token");
      stack.controller.answer_token = controller.bytes("answer_token");
    });
    stack.colocated_transfer = fields.text("colocated_transfer");
    stack.apart_transfer = fields.text("apart_transfer");
  });
}

}  // namespace trainyard
