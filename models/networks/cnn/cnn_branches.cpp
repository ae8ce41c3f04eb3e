// Branches of a CNN: residuals, concatenated branches, auxiliary classifiers.
#include "models/networks/cnn/cnn_layer.hpp"

namespace trainyard {

/// Several operators read the input. Their gradients are added after the backward passes of all of them.
void CnnLayerBuilder::sum_gradients(const std::string& name, const CnnFeature& in, std::size_t uses) {
  if (!in.gradient) return;
  const Bytes x = bytes(in.width);
  Operator o;
  for (std::size_t i = 1; i < uses; ++i) o.backward.push_back({moves(name + ".gradient_sum", x * 3), {}});
  o.backward_live = x * 3;
  b_.add(std::move(o));
}

/// Adds one branch. `forward` and `backward` are bytes of other tensors that live while it runs. `shared` bytes of
/// `backward` are the same tensor as the gradient of the branch's output.
CnnFeature CnnLayerBuilder::branch(const std::vector<CnnOperator>& operators, CnnFeature in, Bytes forward,
                                   Bytes backward, Bytes shared, bool summed) {
  in.shared = true;
  for (std::size_t i = 0, next = 0; i < operators.size(); i = next) {
    next = i + fused_operators(operators, i);
    b_.hold(next == operators.size() ? backward - shared : backward, forward);
    in = add(operators, i, in, summed);
    b_.release();
  }
  return in;
}

/// Forward: layers, shortcut, sum. Backward: the gradient of the sum goes to both; then shortcut, layers, and the sum
/// of their gradients. The kernel of the sum includes fused batch norms at the ends of the branches, and a ReLU.
CnnFeature CnnLayerBuilder::residual(const CnnOperator& op, CnnFeature in, bool activates) {
  const std::string name = name_of(op);
  const Bytes x = bytes(in.width), y = bytes(op.output.elements());
  const bool identity = op.branches[1].empty();
  sum_gradients(name, in, 2);
  const Bytes waiting = in.gradient ? x : Bytes{};
  const std::size_t earlier = summed_norms_.size();
  const CnnFeature main = branch(op.branches[0], in, Bytes{}, waiting, identity ? waiting : Bytes{}, true);
  const CnnFeature other = branch(op.branches[1], in, is_kept(main) ? Bytes{} : y, y, y, true);
  const bool in_place = !is_kept(main) && main.store != in.store;
  const CnnFeature out = in_place ? main : fresh(main.width, true);
  const Bytes mask = activates ? bits(op.output.elements()) : Bytes{};
  Operator o;
  o.forward.push_back(moves(name, y * 3 + mask));
  if (in_place || !is_kept(main)) o.forward_live += y;
  if (!in_place) o.forward_live += y;
  if (!is_kept(other)) o.forward_live += y;
  o.backward_live = y;
  sum_backward(o, name, y, mask, (summed_norms_.size() - earlier) / 2);
  b_.add(std::move(o));
  return {out.width, out.store, main.gradient || other.gradient, false};
}

/// Branches run one after the other, and their outputs are copied into one tensor. Backward they get views of its
/// gradient, the last branch first.
CnnFeature CnnLayerBuilder::concat(const CnnOperator& op, CnnFeature in) {
  const std::string name = name_of(op);
  const Bytes x = in.gradient ? bytes(in.width) : Bytes{}, y = bytes(op.output.elements());
  sum_gradients(name, in, op.branches.size());
  Bytes waiting;  // outputs of earlier branches that no operator keeps
  bool gradient = in.gradient;
  for (const auto& operators : op.branches) {
    const bool last = &operators == &op.branches.back();
    const Bytes part = operators.empty() ? Bytes{} : bytes(operators.back().output.elements());
    const CnnFeature out = branch(operators, in, waiting, last ? y : y + x, part);
    if (!is_kept(out) && out.store != in.store) waiting += bytes(out.width);
    gradient = gradient || out.gradient;
  }
  Operator o;
  o.forward.push_back(moves(name, y * 2));
  o.forward_live = y + waiting;
  o.backward_live = y;
  b_.add(std::move(o));
  return fresh(op.output.elements(), gradient);
}

/// An auxiliary classifier. The layers that follow read its input too; their gradient is held while it runs backward.
CnnFeature CnnLayerBuilder::auxiliary(const CnnOperator& op, CnnFeature in) {
  sum_gradients(name_of(op), in, 2);
  branch(op.branches[0], in, Bytes{}, in.gradient ? bytes(in.width) : Bytes{}, Bytes{});
  return in;
}

}  // namespace trainyard
