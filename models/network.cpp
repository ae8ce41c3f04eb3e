#include "models/network.hpp"

#include <algorithm>
#include <utility>

#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr Bytes kIndexSize{8};  // torch.long: token ids, class targets

template <class Kernels>
Flops sum_flops(const Kernels& kernels) {
  Flops total;
  for (const auto& kernel : kernels) total += kernel.work.flops;
  return total;
}

Bytes sum_bytes(const std::vector<KeptTensor>& kept) {
  Bytes total;
  for (const auto& tensor : kept) total += tensor.bytes;
  return total;
}

}  // namespace

double Layer::parameter_elements() const {
  double total = 0;
  for (const auto& tensor : parameters) total += tensor.elements;
  return total;
}
Bytes Layer::activations() const { return sum_bytes(kept); }
Flops Layer::forward_flops() const { return sum_flops(forward); }
Flops Layer::backward_flops() const { return sum_flops(backward); }

double Network::parameters() const {
  double total = 0;
  for (const auto& layer : layers) total += layer.parameter_elements();
  return total;
}
double Network::active_parameters() const {
  double total = 0;
  for (const auto& layer : layers)
    for (const auto& tensor : layer.parameters) total += tensor.elements * tensor.active_share;
  return total;
}
Flops Network::forward_flops() const {
  Flops total;
  for (const auto& layer : layers) total += layer.forward_flops();
  return total;
}
Flops Network::backward_flops() const {
  Flops total;
  for (const auto& layer : layers) total += layer.backward_flops();
  return total;
}
Bytes Network::activations() const {
  Bytes total;
  for (const auto& layer : layers) total += layer.activations();
  return total;
}
Flops Network::model_flops_per_token() const {
  return weights_reused ? forward_flops() * (3.0 / static_cast<double>(tokens())) : Flops{6 * active_parameters()};
}

KernelCall kernel_call(std::string name, Kernel kernel, Flops flops, Bytes bytes, Precision precision) {
  KernelCall call;
  call.name = std::move(name);
  call.work.flops = flops;
  call.work.bytes = bytes;
  call.work.kernel = static_cast<std::uint16_t>(kernel);
  call.work.precision = static_cast<std::uint8_t>(precision);
  return call;
}

KernelCall gemm(std::string name, double m, double n, double k, Precision precision, double batch) {
  return kernel_call(std::move(name), Kernel::gemm, Flops{2 * m * n * k * batch},
                     element_size(precision) * ((m * k + k * n + m * n) * batch), precision);
}

KernelCall elementwise(std::string name, Bytes bytes, Precision precision) {
  return kernel_call(std::move(name), Kernel::elementwise, Flops{}, bytes, precision);
}

void require_training_precision(Precision precision) {
  switch (precision) {
    case Precision::fp64:
    case Precision::fp32:
    case Precision::tf32:
    case Precision::fp16:
    case Precision::bf16:
      return;
    case Precision::fp8:
    case Precision::int8:
      break;
  }
  throw UserError(std::string("precision: training in ") + name_of(precision) +
                  " is not modelled; expected fp64, fp32, tf32, fp16 or bf16");
}

LayerBuilder::LayerBuilder(std::string name, double rows, Precision precision) : rows_(rows), precision_(precision) {
  require_training_precision(precision);
  layer_.name = std::move(name);
}

int LayerBuilder::parameter(std::string name, double elements) {
  layer_.parameters.push_back({std::move(name), elements, active_share_});
  return static_cast<int>(layer_.parameters.size()) - 1;
}

Bytes LayerBuilder::row_bytes(double width) const { return element_size(precision_) * (rows_ * width); }

void LayerBuilder::add(Operator op) {
  for (const Held& held : held_) {
    op.forward_live += held.tensors;
    op.backward_live += held.gradients;
  }
  operators_.push_back(std::move(op));
}

void LayerBuilder::linear(const Linear& l) {
  const int weight = parameter(l.name + ".weight", l.in * l.out * l.experts);
  const int bias = l.bias ? parameter(l.name + ".bias", l.out * l.experts) : -1;
  for (const int tensor : {weight, bias})
    if (tensor >= 0) layer_.parameters[static_cast<std::size_t>(tensor)].active_share *= l.active_share;
  linear(l, weight, bias);
}

void LayerBuilder::tied_linear(const Linear& l) { linear(l, -1, l.bias ? parameter(l.name + ".bias", l.out) : -1); }

void LayerBuilder::linear(const Linear& l, int weight, int bias) {
  const double groups = std::min(l.experts, rows_);  // no weight is read that gets no row
  const double m = rows_ / groups;
  Operator op;
  op.forward.push_back(gemm(l.name, m, l.out, l.in, precision_, groups));
  if (l.input_gradient) op.backward.push_back({gemm(l.name + ".dgrad", m, l.in, l.out, precision_, groups), {}});
  op.backward.push_back({gemm(l.name + ".wgrad", l.in, l.out, m, precision_, groups), {}});
  if (weight >= 0) op.backward.back().gradients_ready = {weight};
  if (bias >= 0) {
    const Bytes moved = row_bytes(l.out) + element_size(precision_) * (l.out * l.experts);
    op.backward.push_back({elementwise(l.name + ".bias_grad", moved, precision_), {bias}});
  }
  if (l.keeps_input) op.kept.push_back({l.name + ".input", row_bytes(l.in)});
  op.forward_live = row_bytes(l.out);
  if (l.input_gradient) op.backward_live += row_bytes(l.in);
  if (!l.shares_fork_gradient) op.backward_live += row_bytes(l.out);
  add(std::move(op));
}

void LayerBuilder::dropout(const Dropout& d) {
  const Bytes tensor = row_bytes(d.width);
  const Bytes mask{rows_ * d.width};
  Operator op;
  op.forward.push_back(elementwise(d.name, tensor * 2 + mask, precision_));
  op.backward.push_back({elementwise(d.name + ".backward", tensor * 2 + mask, precision_), {}});
  op.kept.push_back({d.name + ".mask", mask});
  op.forward_live = d.input_kept ? tensor : tensor * 2;
  op.backward_live = d.shares_fork_gradient ? tensor : tensor * 2;
  add(std::move(op));
}

void LayerBuilder::fork(std::string name, double width) {
  const Bytes tensor = row_bytes(width);
  Operator op;
  op.backward.push_back({elementwise(name + ".gradient_sum", tensor * 3, precision_), {}});
  op.backward_live = tensor * 3;
  add(std::move(op));
  hold(tensor);
}

void LayerBuilder::join(std::string name) {
  if (held_.empty()) throw InternalError("layer " + layer_.name + ": join without a fork");
  const Bytes tensor = held_.back().gradients;
  Operator op;
  op.forward.push_back(elementwise(std::move(name), tensor * 3, precision_));
  op.forward_live = tensor * 2;
  add(std::move(op));  // before the fork ends: the gradient that comes in is the one it holds
  held_.pop_back();
}

void LayerBuilder::hold(Bytes gradients, Bytes tensors) { held_.push_back({gradients, tensors}); }

void LayerBuilder::release() {
  if (held_.empty()) throw InternalError("layer " + layer_.name + ": release without a hold");
  held_.pop_back();
}

void LayerBuilder::mover(std::string name, Bytes in, Bytes out) {
  Operator op;
  op.forward.push_back(elementwise(name, in + out, precision_));
  op.backward.push_back({elementwise(name + ".backward", in + out, precision_), {}});
  op.forward_live = op.backward_live = in + out;
  add(std::move(op));
}

void LayerBuilder::shared_input(std::string name, double width, int uses) {
  const Bytes tensor = row_bytes(width);
  Operator op;
  for (int i = 1; i < uses; ++i)
    op.backward.push_back({elementwise(name + ".gradient_sum", tensor * 3, precision_), {}});
  op.backward_live = tensor * 3;
  add(std::move(op));
}

void LayerBuilder::norm(Norm kind, const std::string& name, double width) {
  const bool layer_norm = kind == Norm::layer_norm;
  const Bytes tensor = row_bytes(width);
  std::vector<int> gradients = {parameter(name + ".weight", width)};
  if (layer_norm) gradients.push_back(parameter(name + ".bias", width));
  const Bytes statistics = element_size(Precision::fp32) * ((layer_norm ? 2 : 1) * rows_);  // (mean,) 1/deviation
  Operator op;
  op.forward.push_back(elementwise(name, tensor * 2 + statistics, precision_));
  op.backward.push_back({elementwise(name + ".input_grad", tensor * 3 + statistics, precision_), {}});
  op.backward.push_back({elementwise(name + ".weight_grad", tensor * 2 + statistics, precision_), gradients});
  op.kept = {{name + ".input", tensor}, {name + ".statistics", statistics}};
  op.forward_live = tensor;
  op.backward_live = tensor * 2;
  add(std::move(op));
}

void LayerBuilder::embedding(const Embedding& e) {
  const Bytes looked_up = element_size(precision_) * (e.lookups * e.width);
  const Bytes table = element_size(precision_) * (e.entries * e.width);
  const Bytes indices = kIndexSize * e.lookups;
  Operator op;
  op.forward.push_back(kernel_call(e.name, Kernel::embedding, Flops{}, looked_up * 2 + indices, precision_));
  const Bytes scattered = table + looked_up * 3 + indices;
  op.backward.push_back({kernel_call(e.name + ".backward", Kernel::embedding, Flops{}, scattered, precision_), {}});
  if (e.tied) op.backward.push_back({elementwise(e.name + ".gradient_sum", table * 3, precision_), {}});
  if (e.owned) op.backward.back().gradients_ready = {parameter(e.name + ".weight", e.entries * e.width)};
  op.kept = {{e.name + ".indices", indices}};
  op.forward_live = looked_up;
  op.backward_live = looked_up;
  if (e.tied) op.backward_live += table;
  add(std::move(op));
}

void LayerBuilder::cross_entropy(double classes, bool fused) {
  const Bytes logits = row_bytes(classes);
  const Bytes targets = kIndexSize * rows_;
  if (fused) {
    Operator op;  // forward reads twice (maximum and sum, gradient) and writes the gradient; backward scales it
    op.forward.push_back(elementwise("cross_entropy", logits * 3 + targets, precision_));
    op.backward.push_back({elementwise("cross_entropy.backward", logits * 2, precision_), {}});
    op.kept = {{"logits", logits}, {"targets", targets}};
    add(std::move(op));
    return;
  }
  const bool cast = element_size(precision_) < element_size(Precision::fp32);
  const Precision wide = cast ? Precision::fp32 : precision_;
  const Bytes tensor = element_size(wide) * (rows_ * classes);
  Operator copy;
  copy.kept = {{"logits", logits}};
  if (cast) {
    copy.forward.push_back(elementwise("logits_to_fp32", logits + tensor, wide));
    copy.backward.push_back({elementwise("logits_to_fp32.backward", tensor + logits, wide), {}});
    copy.forward_live = tensor;
    copy.backward_live = tensor + logits;
  }
  add(std::move(copy));

  Operator log_softmax;
  log_softmax.forward.push_back(elementwise("log_softmax", tensor * 2, wide));
  log_softmax.backward.push_back({elementwise("log_softmax.backward", tensor * 3, wide), {}});
  log_softmax.kept = {{"log_probabilities", tensor}};
  if (cast) log_softmax.forward_live = tensor;
  log_softmax.backward_live = tensor * 2;
  add(std::move(log_softmax));

  Operator nll;  // picks one log-probability a row; its gradient is a cleared tensor with one entry a row
  const Bytes picked = element_size(wide) * rows_;
  nll.forward.push_back(elementwise("nll_loss", picked + targets, wide));
  nll.backward.push_back({elementwise("nll_loss.backward", tensor + picked + targets, wide), {}});
  nll.kept = {{"targets", targets}};
  nll.backward_live = tensor;
  add(std::move(nll));
}

Layer LayerBuilder::build(Bytes output) && {
  if (!held_.empty())
    throw InternalError("layer " + layer_.name + ": a fork was never joined, or a hold never released");
  layer_.output = output;
  for (const auto& op : operators_) layer_.kept.insert(layer_.kept.end(), op.kept.begin(), op.kept.end());
  const Bytes all = layer_.activations();
  Bytes kept_so_far;
  for (const auto& op : operators_) {
    layer_.forward.insert(layer_.forward.end(), op.forward.begin(), op.forward.end());
    kept_so_far += sum_bytes(op.kept);
    layer_.forward_transient = std::max(layer_.forward_transient, kept_so_far + op.forward_live - all);
    // What later operators saved is freed by the time this one's backward runs, so the same sum applies.
    layer_.backward_transient = std::max(layer_.backward_transient, kept_so_far + op.backward_live - all);
  }
  for (auto op = operators_.rbegin(); op != operators_.rend(); ++op)
    layer_.backward.insert(layer_.backward.end(), op->backward.begin(), op->backward.end());
  return std::move(layer_);
}

}  // namespace trainyard
