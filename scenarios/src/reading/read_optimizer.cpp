// Reads `plan.optimizer`.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scenarios/src/reading/plan_choice.hpp"

namespace trainyard {

Optimizer read_optimizer(Fields& plan, const SoftwareStack& stack) {
  const Key name{"optimizer",
                 "Optimizer that updates the weights, for example sgd, or {name: adam, states: bf16, master_weights: "
                 "false}. Its states take memory."};
  const Node* node = plan.child_unless_null(name.name);
  if (!node || node->kind == Node::Kind::scalar) {
    Optimizer optimizer = find_optimizer(plan.text(name, "adam"), plan.place_of(name.name));
    optimizer.keeps_master = stack.master_weights;
    if (stack.optimizer_states && optimizer.state_element.value == 0)
      optimizer.state_element = element_size(*stack.optimizer_states);
    return optimizer;
  }
  const Node map = long_form(node, nullptr, node->place);
  Fields fields(map, "plan.optimizer");
  Optimizer optimizer = find_optimizer(fields.text({"name", "Name of the optimizer, for example adamw."}, "adam"),
                                       fields.place_of("name"));
  const Precision states = parse_precision(
      fields.choice({"states",
                     "Number format of the optimizer's states (moments), for example bf16 (DeepSeek-AI 2024, §3.3.3). "
                     "Default: the stack's, which is fp32 for most."},
                    {"fp32", "bf16", "fp16", "fp8"}, name_of(stack.optimizer_states.value_or(Precision::fp32))));
  if (optimizer.state_element.value == 0 && states != Precision::fp32) {
    if (optimizer.states == 0 && fields.has("states"))
      fields.refuse("states", fmt::format("{} has none; leave it out", optimizer.name));
    optimizer.state_element = element_size(states);
  } else if (optimizer.state_element.value > 0 && fields.has("states")) {
    fields.refuse("states", fmt::format("{} has states of 8 bits; leave it out, or take adam", optimizer.name));
  }
  optimizer.keeps_master =
      fields.boolean({"master_weights",
                      "Whether 16-bit parameters have a copy in fp32, which the update changes. false: it changes the "
                      "16-bit parameters. Default: the stack's, which is true for most."},
                     stack.master_weights);
  const Key split{
      "tensor_parallel",
      "How tensor ranks make the momentum of a matrix that they split orthogonal, with muon: blockwise (each "
      "its part alone), duplicated (each the whole matrix, which they gather) or distributed (together, with "
      "sums over the ranks), as Megatron's muon_tp_mode, for example duplicated. Default: blockwise."};
  const std::vector<std::string> splits{"blockwise", "duplicated", "distributed"};  // in the order of MatrixSplit
  const std::string chosen = fields.choice(split, splits, splits.front());
  if (fields.has(split) && optimizer.orthogonal_steps == 0)
    fields.refuse("tensor_parallel",
                  fmt::format("{} makes no momentum orthogonal; leave it out, or take muon", optimizer.name));
  optimizer.matrix_split = static_cast<MatrixSplit>(std::ranges::find(splits, chosen) - splits.begin());
  fields.finish();
  return optimizer;
}

}  // namespace trainyard
