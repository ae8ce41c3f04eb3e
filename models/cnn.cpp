#include "models/cnn.hpp"

#include <array>
#include <map>
#include <utility>

namespace trainyard {
namespace {

constexpr Bytes kPoolIndexSize{8};  // torch.long

/// What an operator hands to the next one.
struct Feature {
  double width = 0;       ///< elements of one sample
  std::size_t store = 0;  ///< the memory it lies in: a view and what works in place share that of their input
  bool gradient = false;  ///< anything before it has parameters
  bool shared = false;    ///< another branch reads it too: nothing works in place on it
};

/// The kernels of one `CnnLayer`.
class CnnLayerBuilder {
 public:
  /// `kept[store]`: somebody keeps that memory for the backward pass. It outlives the layers.
  CnnLayerBuilder(const std::string& name, double samples, Precision precision, bool fused_loss,
                  std::vector<bool>& kept)
      : b_(name, samples, precision), samples_(samples), precision_(precision), fused_loss_(fused_loss), kept_(kept) {}

  Feature run(const std::vector<CnnOperator>& operators, Feature feature) {
    for (const CnnOperator& op : operators) feature = add(op, feature);
    return feature;
  }
  Layer build(Bytes output) && { return std::move(b_).build(output); }
  Bytes bytes(double width) const { return b_.row_bytes(width); }

 private:
  /// Names are "conv1", "conv2", …, each kind counted in its layer.
  std::string name_of(const CnnOperator& op) { return op.word + std::to_string(++used_[op.word]); }
  bool is_kept(const Feature& f) const { return kept_[f.store]; }
  Feature fresh(double width, bool gradient) {
    kept_.push_back(false);
    return {width, kept_.size() - 1, gradient, false};
  }
  /// Once: the first operator that needs it lists it.
  void keep(Operator& op, const Feature& f, std::string name) {
    if (!is_kept(f)) op.kept.push_back({std::move(name), bytes(f.width)});
    kept_[f.store] = true;
  }
  KernelCall moves(std::string name, Bytes moved) const { return elementwise(std::move(name), moved, precision_); }

  Feature add(const CnnOperator&, Feature);
  Feature conv(const CnnOperator&, Feature);
  Feature batch_norm(const CnnOperator&, Feature);
  Feature activation(const CnnOperator&, Feature);
  Feature pool(const CnnOperator&, Feature);
  Feature local_response_norm(const CnnOperator&, Feature);
  Feature linear(const CnnOperator&, Feature);
  Feature dropout(const CnnOperator&, Feature);
  Feature residual(const CnnOperator&, Feature);
  Feature concat(const CnnOperator&, Feature);
  Feature auxiliary(const CnnOperator&, Feature);

  void sum_gradients(const std::string& name, const Feature& in, std::size_t uses);
  Feature branch(const std::vector<CnnOperator>&, Feature in, Bytes forward, Bytes backward, Bytes shared);

  LayerBuilder b_;
  double samples_;
  Precision precision_;
  bool fused_loss_;
  std::vector<bool>& kept_;
  std::map<std::string, int> used_;
};

Feature CnnLayerBuilder::conv(const CnnOperator& op, Feature in) {
  const std::string name = name_of(op);
  const double out_channels = static_cast<double>(op.out), groups = static_cast<double>(op.groups);
  const double window = static_cast<double>(op.in.channels) / groups * static_cast<double>(op.kernel[0] * op.kernel[1]);
  const Feature out = fresh(op.output.elements(), true);
  const Bytes x = bytes(in.width), y = bytes(out.width), weights = element_size(precision_) * (window * out_channels);
  const bool depthwise = op.groups > 1 && op.groups == op.in.channels;
  const auto product = [&](const std::string& kernel) {
    return kernel_call(kernel, depthwise ? Kernel::elementwise : Kernel::convolution,
                       Flops{2 * samples_ * out.width * window}, x + y + weights, precision_);
  };
  Operator o;
  o.forward.push_back(product(name));
  if (in.gradient) o.backward.push_back({product(name + ".dgrad"), {}});
  o.backward.push_back({product(name + ".wgrad"), {b_.parameter(name + ".weight", window * out_channels)}});
  if (op.bias) {  // PyTorch adds the bias to what cuDNN returns (ATen/native/Convolution.cpp)
    const Bytes biases = element_size(precision_) * out_channels;
    o.forward.push_back(moves(name + ".bias", y * 2 + biases));
    o.backward.push_back({moves(name + ".bias_grad", y + biases), {b_.parameter(name + ".bias", out_channels)}});
  }
  keep(o, in, name + ".input");
  o.forward_live = y;
  o.backward_live = in.gradient ? y + x : y;
  b_.add(std::move(o));
  return out;
}

Feature CnnLayerBuilder::batch_norm(const CnnOperator& op, Feature in) {
  const std::string name = name_of(op);
  const double channels = static_cast<double>(op.in.channels);
  const Feature out = fresh(in.width, true);
  const Bytes x = bytes(in.width), statistics = element_size(Precision::fp32) * (2 * channels);
  const std::vector<int> gradients = {b_.parameter(name + ".weight", channels), b_.parameter(name + ".bias", channels)};
  Operator
      o;  // a channel of the whole micro-batch is in no cache: once read for its statistics, again to be normalised
  o.forward.push_back(moves(name, x * 3 + statistics));
  o.backward.push_back({moves(name + ".backward", x * 5 + statistics), gradients});
  keep(o, in, name + ".input");
  o.kept.push_back({name + ".statistics", statistics});
  o.forward_live = x;
  o.backward_live = x * 2;
  b_.add(std::move(o));
  return out;
}

Feature CnnLayerBuilder::activation(const CnnOperator& op, Feature in) {
  const std::string name = name_of(op);
  const Bytes x = bytes(in.width);
  const bool in_place = op.word == "relu" && !is_kept(in) && !in.shared;
  const bool keeps_input = op.word == "gelu" || op.word == "silu";
  const Feature out = in_place ? in : fresh(in.width, in.gradient);
  Operator o;
  o.forward.push_back(moves(name, x * 2));
  if (in.gradient) {
    o.backward.push_back({moves(name + ".backward", x * 3), {}});
    keep(o, keeps_input ? in : out, name + (keeps_input ? ".input" : ".output"));
    o.backward_live = x * 2;
  }
  if (!is_kept(in)) o.forward_live += x;
  if (!in_place && !is_kept(out)) o.forward_live += x;
  b_.add(std::move(o));
  return out;
}

Feature CnnLayerBuilder::pool(const CnnOperator& op, Feature in) {
  const std::string name = name_of(op);
  const Feature out = fresh(op.output.elements(), in.gradient);
  const Bytes x = bytes(in.width), y = bytes(out.width);
  const Bytes indices = op.kind == CnnKind::max_pool ? kPoolIndexSize * (samples_ * out.width) : Bytes{};
  Operator o;
  o.forward.push_back(moves(name, x + y + indices));
  if (in.gradient) {
    o.backward.push_back({moves(name + ".backward", x + y + indices), {}});
    if (op.kind != CnnKind::global_pool) keep(o, in, name + ".input");  // a mean needs no more than the sizes
    if (indices.value > 0) o.kept.push_back({name + ".indices", indices});
    o.backward_live = x + y;
  }
  o.forward_live = is_kept(in) ? y : x + y;
  b_.add(std::move(o));
  return out;
}

/// torch.nn.functional.local_response_norm: x / (k + α · mean of x² over neighbouring channels)^β, as separate
/// kernels, of which autograd keeps x², the base of the power and the power.
Feature CnnLayerBuilder::local_response_norm(const CnnOperator& op, Feature in) {
  const std::string name = name_of(op);
  const Feature out = fresh(in.width, in.gradient);
  const Bytes x = bytes(in.width);
  struct Step {
    const char* name;
    double forward, backward;  // tensors moved
  };
  constexpr std::array<Step, 6> steps{
      {{"square", 2, 3}, {"mean", 2, 2}, {"scale", 2, 2}, {"shift", 2, 0}, {"power", 2, 3}, {"divide", 3, 5}}};
  Operator o;
  for (const Step& step : steps) o.forward.push_back(moves(name + "." + step.name, x * step.forward));
  if (in.gradient) {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
      if (step->backward > 0)
        o.backward.push_back({moves(name + "." + step->name + "_backward", x * step->backward), {}});
    keep(o, in, name + ".input");
    for (const char* tensor : {".square", ".base", ".power"}) o.kept.push_back({name + tensor, x});
    o.backward_live = x * 3;  // the gradients of the output, of the power, and of the input so far
  }
  o.forward_live = x * 2;
  b_.add(std::move(o));
  return out;
}

Feature CnnLayerBuilder::linear(const CnnOperator& op, Feature in) {
  const double out = static_cast<double>(op.out);
  b_.linear({.name = name_of(op),
             .in = in.width,
             .out = out,
             .bias = op.bias,
             .keeps_input = !is_kept(in),
             .input_gradient = in.gradient});
  kept_[in.store] = true;
  return fresh(out, true);
}

Feature CnnLayerBuilder::dropout(const CnnOperator& op, Feature in) {
  if (op.probability == 0) return in;
  b_.dropout({.name = name_of(op), .width = in.width, .input_kept = is_kept(in)});
  return fresh(in.width, in.gradient);
}

/// The input goes to several operators: their gradients are added where the backward pass has run them all.
void CnnLayerBuilder::sum_gradients(const std::string& name, const Feature& in, std::size_t uses) {
  if (!in.gradient) return;
  const Bytes x = bytes(in.width);
  Operator o;
  for (std::size_t i = 1; i < uses; ++i) o.backward.push_back({moves(name + ".gradient_sum", x * 3), {}});
  o.backward_live = x * 3;
  b_.add(std::move(o));
}

/// One branch, with what is there besides while it runs. Of what is held backward, `shared` is the very gradient that
/// the branch's last operator is given.
Feature CnnLayerBuilder::branch(const std::vector<CnnOperator>& operators, Feature in, Bytes forward, Bytes backward,
                                Bytes shared) {
  in.shared = true;
  for (const CnnOperator& op : operators) {
    b_.hold(forward, &op == &operators.back() ? backward - shared : backward);
    in = add(op, in);
    b_.release();
  }
  return in;
}

/// Forward: layers, shortcut, sum. Backward: the gradient of the sum goes to both; shortcut, layers, sum of gradients.
Feature CnnLayerBuilder::residual(const CnnOperator& op, Feature in) {
  const std::string name = name_of(op);
  const Bytes x = bytes(in.width), y = bytes(op.output.elements());
  const bool identity = op.branches[1].empty();
  sum_gradients(name, in, 2);
  const Bytes waiting = in.gradient ? x : Bytes{};
  const Feature main = branch(op.branches[0], in, Bytes{}, waiting, identity ? waiting : Bytes{});
  const Feature other = branch(op.branches[1], in, is_kept(main) ? Bytes{} : y, y, y);
  const bool in_place = !is_kept(main) && main.store != in.store;
  const Feature out = in_place ? main : fresh(main.width, true);
  Operator o;
  o.forward.push_back(moves(name, y * 3));
  if (in_place || !is_kept(main)) o.forward_live += y;
  if (!in_place) o.forward_live += y;
  if (!is_kept(other)) o.forward_live += y;
  o.backward_live = y;
  b_.add(std::move(o));
  return {out.width, out.store, main.gradient || other.gradient, false};
}

/// Branches one after the other, copied into one tensor; backward they are given views of its gradient, last to first.
Feature CnnLayerBuilder::concat(const CnnOperator& op, Feature in) {
  const std::string name = name_of(op);
  const Bytes x = in.gradient ? bytes(in.width) : Bytes{}, y = bytes(op.output.elements());
  sum_gradients(name, in, op.branches.size());
  Bytes waiting;  // outputs of branches that nobody keeps
  bool gradient = in.gradient;
  for (const auto& operators : op.branches) {
    const bool last = &operators == &op.branches.back();
    const Bytes part = operators.empty() ? Bytes{} : bytes(operators.back().output.elements());
    const Feature out = branch(operators, in, waiting, last ? y : y + x, part);
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

/// A classifier on the side: its input goes on to the layers that follow, whose gradient waits while it runs backward.
Feature CnnLayerBuilder::auxiliary(const CnnOperator& op, Feature in) {
  sum_gradients(name_of(op), in, 2);
  branch(op.branches[0], in, Bytes{}, in.gradient ? bytes(in.width) : Bytes{}, Bytes{});
  return in;
}

Feature CnnLayerBuilder::add(const CnnOperator& op, Feature in) {
  switch (op.kind) {
    case CnnKind::conv:
      return conv(op, in);
    case CnnKind::batch_norm:
      return batch_norm(op, in);
    case CnnKind::activation:
      return activation(op, in);
    case CnnKind::max_pool:
    case CnnKind::avg_pool:
    case CnnKind::adaptive_pool:
    case CnnKind::global_pool:
      return pool(op, in);
    case CnnKind::flatten:
      return in;
    case CnnKind::linear:
      return linear(op, in);
    case CnnKind::dropout:
      return dropout(op, in);
    case CnnKind::local_response_norm:
      return local_response_norm(op, in);
    case CnnKind::softmax_cross_entropy:
      b_.cross_entropy(in.width, fused_loss_);
      return in;
    case CnnKind::residual:
      return residual(op, in);
    case CnnKind::concat:
      return concat(op, in);
    case CnnKind::auxiliary:
      return auxiliary(op, in);
  }
  throw InternalError("an operator of a CNN without kernels");
}

}  // namespace

Network cnn_network(const Cnn& cnn, std::int64_t micro_batch_size, Precision precision, bool fused_loss) {
  if (micro_batch_size < 1)
    throw UserError("micro_batch_size is " + std::to_string(micro_batch_size) + "; expected at least 1");
  Network network;
  network.name = cnn.name;
  network.source = cnn.source;
  network.precision = precision;
  network.samples = micro_batch_size;
  network.weights_reused = true;
  std::vector<bool> kept{false};
  Feature feature{cnn.input.elements(), 0, false, false};
  for (const CnnLayer& layer : cnn.layers) {
    CnnLayerBuilder builder(layer.name, static_cast<double>(micro_batch_size), precision, fused_loss, kept);
    feature = builder.run(layer.operators, feature);
    const bool last = &layer == &cnn.layers.back();
    const Bytes output = last ? Bytes{} : builder.bytes(feature.width);
    network.layers.push_back(std::move(builder).build(output));
  }
  return network;
}

}  // namespace trainyard
