#include "models/networks/cnn/cnn_layer.hpp"

#include <array>

#include "models/networks/layers/sharding.hpp"
#include "models/reading/nearest.hpp"

namespace trainyard {

void CnnLayerBuilder::begin_columns(const CnnOperator& op, const std::string& name, const CnnFeature& in) {
  if (sharding_.tensor == 1) return;
  for (const auto& [count, what] : {std::pair{op.out, "outputs"}, std::pair{op.groups, "groups"}})
    if (count % sharding_.tensor != 0 && !(what == std::string("groups") && count == 1))
      throw ShardingError("tensor",
                          "tensor parallelism over " + std::to_string(sharding_.tensor) +
                              " ranks: they must divide the " + std::to_string(count) + " " + what + " of " + name +
                              "; nearest: " + nearest_divisors(count, sharding_.tensor),
                          op.place);
  if (!in.gradient) return;
  const Bytes x = bytes(in.width);
  b_.cross({.backward = {name + ".reduce.backward", Axis::tensor, ExchangeKind::all_reduce, x},
            .in = x,
            .out = x,
            .beside_weights = true});
}

void CnnLayerBuilder::gather_columns(const std::string& name, double width) {
  if (sharding_.tensor == 1) return;
  const Bytes all = bytes(width);
  b_.cross(
      {.forward = {name + ".gather", Axis::tensor, ExchangeKind::all_gather, all}, .in = all / ranks(), .out = all});
}

CnnFeature CnnLayerBuilder::conv(const CnnOperator& op, CnnFeature in) {
  const std::string name = name_of(op);
  const double out_channels = static_cast<double>(op.out), groups = static_cast<double>(op.groups);
  const double window = static_cast<double>(op.in.channels) / groups * static_cast<double>(op.kernel[0] * op.kernel[1]);
  begin_columns(op, name, in);
  const double rank_channels = out_channels / ranks(), rank_width = op.output.elements() / ranks();
  const CnnFeature out = fresh(op.output.elements(), true);
  const Bytes x = bytes(in.width), y = bytes(rank_width), weights = element_size(precision_) * (window * rank_channels);
  const bool depthwise = op.groups > 1 && op.groups == op.in.channels;
  const bool fast = precision_ == Precision::fp32 && op.kernel == std::array<std::int64_t, 2>{3, 3} &&
                    op.stride == std::array<std::int64_t, 2>{1, 1};
  const Kernel kind = depthwise ? Kernel::elementwise : fast ? Kernel::convolution_3x3 : Kernel::convolution;
  const auto product = [&](const std::string& kernel) {
    return kernel_call(kernel, kind, Flops{2 * samples_ * rank_width * window}, x + y + weights, precision_);
  };
  Operator o;
  b_.cast_weights(o, name, window * rank_channels);
  o.forward.push_back(product(name));
  if (in.gradient) o.backward.push_back({product(name + ".dgrad"), {}});
  o.backward.push_back(
      {product(name + ".wgrad"), {b_.parameter(name + ".weight", window * rank_channels, rank_channels)}});
  o.backward.back().for_weights = true;
  b_.cast_gradient(o, name + ".weight", window * rank_channels);
  if (op.bias) {  // PyTorch adds the bias to what cuDNN returns (ATen/native/Convolution.cpp)
    const Bytes biases = element_size(precision_) * rank_channels;
    o.forward.push_back(moves(name + ".bias", y * 2 + biases));
    o.backward.push_back({moves(name + ".bias_grad", y + biases), {b_.parameter(name + ".bias", rank_channels)}});
    o.backward.back().for_weights = true;
  }
  o.for_weights = x + y;
  keep(o, in, name + ".input");
  o.forward_live = y;
  o.backward_live = in.gradient ? y + x : y;
  b_.add(std::move(o));
  gather_columns(name, out.width);
  return out;
}

CnnFeature CnnLayerBuilder::activation(const CnnOperator& op, CnnFeature in) {
  const std::string name = name_of(op);
  const Bytes x = bytes(in.width);
  const bool in_place = op.word == "relu" && !is_kept(in) && !in.shared;
  const bool keeps_input = op.word == "gelu" || op.word == "silu";
  const CnnFeature out = in_place ? in : fresh(in.width, in.gradient);
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

CnnFeature CnnLayerBuilder::pool(const CnnOperator& op, CnnFeature in) {
  const std::string name = name_of(op);
  const CnnFeature out = fresh(op.output.elements(), in.gradient);
  const Bytes x = bytes(in.width), y = bytes(out.width);
  const Bytes indices = op.kind == CnnKind::max_pool ? kIndexSize * (samples_ * out.width) : Bytes{};
  Operator o;
  o.forward.push_back(moves(name, x + y + indices));
  if (in.gradient) {
    o.backward.push_back({moves(name + ".backward", x + y + indices), {}});
    if (op.kind != CnnKind::global_pool)
      keep(o, in, name + ".input");  // the gradient of a mean depends only on the sizes
    if (indices.value > 0) o.saved_tensors.push_back({name + ".indices", indices});
    o.backward_live = x + y;
  }
  o.forward_live = is_kept(in) ? y : x + y;
  b_.add(std::move(o));
  return out;
}

/// torch.nn.functional.local_response_norm: x / (k + α · mean of x² over neighbouring channels)^β, as separate
/// kernels. Autograd keeps x², the base of the power and the power.
CnnFeature CnnLayerBuilder::local_response_norm(const CnnOperator& op, CnnFeature in) {
  const std::string name = name_of(op);
  const CnnFeature out = fresh(in.width, in.gradient);
  const Bytes x = bytes(in.width);
  struct Step {
    const char* name;
    double forward, backward;  // number of tensors moved
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
    for (const char* tensor : {".square", ".base", ".power"}) o.saved_tensors.push_back({name + tensor, x});
    o.backward_live = x * 3;  // the gradients of the output, of the power, and of the input so far
  }
  o.forward_live = x * 2;
  b_.add(std::move(o));
  return out;
}

CnnFeature CnnLayerBuilder::linear(const CnnOperator& op, CnnFeature in) {
  const double out = static_cast<double>(op.out);
  const std::string name = name_of(op);
  begin_columns(op, name, in);
  b_.linear({.name = name,
             .in = in.width,
             .out = out / ranks(),
             .bias = op.bias,
             .keeps_input = !is_kept(in),
             .input_gradient = in.gradient,
             .holds_input = is_kept(in)});
  kept_[in.store] = true;
  gather_columns(name, out);
  return fresh(out, true);
}

CnnFeature CnnLayerBuilder::dropout(const CnnOperator& op, CnnFeature in) {
  if (op.probability == 0) return in;
  b_.dropout({.name = name_of(op), .width = in.width, .input_kept = is_kept(in)});
  return fresh(in.width, in.gradient);
}

CnnFeature CnnLayerBuilder::add(const CnnOperator& op, CnnFeature in) {
  switch (op.kind) {
    case CnnKind::conv:
      return conv(op, in);
    case CnnKind::batch_norm:
      return batch_norm(op, in, false, NormApplied::by_itself);
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
      b_.cross_entropy(in.width, fusions_.fused_loss);
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

}  // namespace trainyard
