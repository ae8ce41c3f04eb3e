#include "models/networks/layers/layer_builder.hpp"

#include <algorithm>
#include <utility>

#include "sim/error.hpp"

namespace trainyard {
namespace {

BackwardKernel for_weights(KernelCall call, std::vector<int> gradients) {
  BackwardKernel kernel{std::move(call), std::move(gradients)};
  kernel.for_weights = true;
  return kernel;
}

}  // namespace

LayerBuilder::LayerBuilder(std::string name, double rows, Precision precision) : rows_(rows), precision_(precision) {
  require_training_precision(precision);
  layer_.name = std::move(name);
}

int LayerBuilder::parameter(std::string name, double elements, double rows) {
  layer_.parameters.push_back({std::move(name), elements, active_share_});
  layer_.parameters.back().rows = rows;
  layer_.parameters.back().partial = partial_;
  layer_.parameters.back().frozen = adapters_.has_rank();
  return static_cast<int>(layer_.parameters.size()) - 1;
}

Bytes LayerBuilder::row_bytes(double width) const { return element_size(precision_) * (rows_ * width); }

void LayerBuilder::add(Operator op) {
  for (const HeldMemory& held : held_) {
    op.forward_live += held.tensors;
    op.backward_live += held.gradients;
    op.residual += held.residual;
  }
  op.module = module_;
  op.region = region_;
  // The input is the output of the last operator with kernels.
  const auto producer = std::find_if(operators_.rbegin(), operators_.rend(),
                                     [](const Operator& earlier) { return !earlier.forward.empty(); });
  if (producer != operators_.rend() && producer->module != op.module && !op.saved_tensors.empty() && op.keeps_input)
    op.saved_tensors.front().made_by = producer->module;
  operators_.push_back(std::move(op));
}

void LayerBuilder::set_traffic(std::size_t first, Bytes bytes) {
  Bytes total;
  const auto visit_work = [&](auto visit) {
    for (std::size_t i = first; i < operators_.size(); ++i) {
      for (KernelCall& kernel : operators_[i].forward) visit(kernel.work);
      for (BackwardKernel& kernel : operators_[i].backward) visit(kernel.work);
    }
  };
  visit_work([&total](const Work& work) { total += work.bytes; });
  visit_work([&](Work& work) { work.bytes = work.bytes * (bytes / total); });
}

void LayerBuilder::linear(const Linear& l) {
  if (shared_) return linear(l, -1, -1);
  const int weight = parameter(l.name + ".weight", l.in * l.out * l.experts);
  const int bias = l.bias ? parameter(l.name + ".bias", l.out * l.experts) : -1;
  for (const int index : {weight, bias}) {
    if (index < 0) continue;
    ParameterTensor& tensor = layer_.parameters[index];
    tensor.active_share *= l.active_share;
    tensor.expert = l.routed;
  }
  ParameterTensor& matrix = layer_.parameters[weight];
  matrix.in = l.in;
  matrix.out = l.out;
  matrix.accumulated = accumulated_.value > 0 && !adapters_.has_rank();
  if (stores_narrow(l)) matrix.stored = stored_size(adapters_.base);
  if (!stores_narrow(l)) matrix.scales = fp8_.weight_scales();
  linear(l, weight, bias);
}

void LayerBuilder::tied_linear(const Linear& l) {
  layer_.tied_elements += l.in * l.out;
  linear(l, -1, l.bias ? parameter(l.name + ".bias", l.out) : -1);
}

void LayerBuilder::linear(const Linear& l, int weight, int bias) {
  const double groups = std::min(l.experts, rows_);  // weights without rows are not read
  const double m = rows_ / groups;
  const double weights = l.in * l.out * l.experts;
  const bool casts_input = autocast_ && l.casts_residual;
  const bool in_turn = experts_in_turn_ && groups > 1;
  const Precision product_precision = fp8_.is_used ? fp8_.format() : precision_;
  const bool in_blocks = fp8_.is_used && fp8_.scaling == Fp8Scaling::block;
  const bool frozen = adapters_.has_rank(), adapted = adapts(l.part);
  const Bytes input_element =  // gathered and kept
      fp8_.is_used && !casts_gathered(l) ? fp8_.element() : element_size(precision_);
  const bool in_nvfp4 = fp8_.is_used && fp8_.scaling == Fp8Scaling::nvfp4;
  const bool quantized_once = stores_narrow(l) && adapters_.base == Adapters::Base::nvfp4 && in_nvfp4;
  const bool in_fp8 = fp8_.is_used && adapters_.base == Adapters::Base::fp8;
  const bool widens = stores_narrow(l) && !quantized_once && !in_fp8;
  Operator op;
  const auto widen = [&] {
    const Bytes element = element_size(precision_) + stored_size(adapters_.base);
    return elementwise(l.name + ".dequantize", element * (l.in * l.out * groups), precision_);
  };
  if (widens) op.forward.push_back(widen());
  if (fp8_.is_used) cast_operands(op, l);
  if (casts_input) op.forward.push_back(autocast_kernel(l.name + ".input_cast", rows_ * l.in));
  cast_weights(op, l.name, weights);
  if (autocast_ && bias >= 0) op.forward.push_back(autocast_kernel(l.name + ".bias_cast", l.out * l.experts));
  if (fp8_.is_used && fp8_.scaling == Fp8Scaling::delayed) ++layer_.delayed_products;
  if (!quantized_once) add_lasting(fp8_.weight_copies() * weights);
  op.forward.push_back(gemm(l.name, m, l.out, l.in, product_precision, groups, in_turn, in_blocks));
  if (widens && l.input_gradient) op.backward.push_back({widen(), {}});
  if (l.input_gradient)
    op.backward.push_back({gemm(l.name + ".dgrad", m, l.in, l.out, product_precision, groups, in_turn, in_blocks), {}});
  if (casts_input && l.input_gradient)
    op.backward.push_back({autocast_kernel(l.name + ".input_gradient_cast", rows_ * l.in, true), {}});
  if (!l.regather.empty() && !frozen) {
    op.backward_exchanges.push_back({l.regather, Axis::tensor, ExchangeKind::all_gather, input_element * (rows_ * l.in),
                                     0, static_cast<int>(op.backward.size()), true});
  }
  if (fp8_.is_used && !frozen) transpose_operands(op, l);
  if (!frozen) {
    KernelCall wgrad = gemm(l.name + ".wgrad", l.in, l.out, m, product_precision, groups, in_turn, in_blocks);
    if (accumulated_.value > 0)
      wgrad.work.bytes += (accumulated_ * 2 - element_size(precision_)) * (l.in * l.out * groups);
    op.backward.push_back(for_weights(std::move(wgrad), {}));
    if (weight >= 0) op.backward.back().gradients_ready = {weight};
    if (shared_ && accumulated_.value == 0)  // autograd adds the gradients of all uses
      op.backward.push_back(
          for_weights(elementwise(l.name + ".gradient_sum", element_size(precision_) * (3 * weights), precision_), {}));
    cast_gradient(op, l.name + ".weight", weights);
  }
  if (bias >= 0 && !frozen) {
    const Bytes moved = row_bytes(l.out) + element_size(precision_) * (l.out * l.experts);
    op.backward.push_back(for_weights(elementwise(l.name + ".bias_grad", moved, precision_), {bias}));
    cast_gradient(op, l.name + ".bias", l.out * l.experts);
  }
  // Only the kernels of weight gradients read the input: those of the matrix or of its adapter.
  const bool reads_input = !frozen || adapted;
  const bool keeps_input = l.keeps_input || casts_input;  // the cast input is a tensor of its own
  const Bytes kept_element = input_element + (casts_gathered(l) ? Bytes{} : fp8_.scales());
  const Bytes input = kept_element * (rows_ * l.in) / l.input_shares;
  if (keeps_input && reads_input) op.saved_tensors.push_back({l.name + ".input", input});
  if ((keeps_input || l.holds_input) && reads_input) op.for_weights += input;
  op.keeps_input = true;
  if (reads_input) op.for_weights += row_bytes(l.out);
  op.forward_live = row_bytes(l.out);
  if (l.input_shares > 1 && l.regather_buffer) {  // the gathered input, in both passes
    op.forward_live += row_bytes(l.in);
    if (!frozen) op.backward_live += row_bytes(l.in);
  }
  if (l.input_gradient) op.backward_live += row_bytes(l.in);
  if (!l.shares_fork_gradient || autocast_) op.backward_live += row_bytes(l.out);
  if (fp8_.is_used && !l.routed && linear_launches_ > 0) {
    std::vector<KernelCall*> forward, backward;
    for (KernelCall& kernel : op.forward) forward.push_back(&kernel);
    for (BackwardKernel& kernel : op.backward) backward.push_back(&kernel);
    for (auto* kernels : {&forward, &backward}) spread_launches(*kernels, linear_launches_);
  }
  if (adapted) add_adapter(op, l);
  add(std::move(op));
}

KernelCall LayerBuilder::autocast_kernel(const std::string& name, double elements, bool widens) const {
  const Bytes moved = (element_size(Precision::fp32) + element_size(precision_)) * elements;
  return widens ? strided_elementwise(name, moved, precision_) : elementwise(name, moved, precision_);
}

void LayerBuilder::cast_weights(Operator& op, const std::string& name, double elements) const {
  if (!autocast_) return;
  op.forward.push_back(autocast_kernel(name + ".weight_cast", elements));
  op.saved_tensors.push_back({name + ".weight_copy", element_size(precision_) * elements});
}

void LayerBuilder::cast_gradient(Operator& op, const std::string& name, double elements) const {
  if (!autocast_) return;
  BackwardKernel cast = for_weights(autocast_kernel(name + "_gradient_cast", elements, true), {});
  std::swap(cast.gradients_ready, op.backward.back().gradients_ready);
  op.backward.push_back(std::move(cast));
}

std::vector<KernelCall> LayerBuilder::casts(const std::string& name, double width, bool both) const {
  const Bytes source = row_bytes(width);
  std::vector<KernelCall> kernels;
  if (fp8_.agrees()) kernels.push_back(elementwise(name + ".maximum", source, precision_));
  kernels.push_back(elementwise(name, fp8_.cast_traffic(rows_ * width, source, both), precision_));
  return kernels;
}

/// Do tensor ranks keep their shares of the input in 16 bits and cast the gathered input?
bool LayerBuilder::casts_gathered(const Linear& l) const {
  return fp8_.is_used && l.cast == Linear::Cast::here && l.input_shares > 1;
}

/// Casts the operands of the products for the output and the gradient of the input. The gradient of the weight needs
/// both along the rows too.
void LayerBuilder::cast_operands(Operator& op, const Linear& l) const {
  const bool both = !adapters_.has_rank();
  if (l.cast == Linear::Cast::here)
    for (KernelCall& kernel : casts(l.name + ".cast", l.in, both && !casts_gathered(l)))
      op.forward.push_back(std::move(kernel));
  if (l.gradient_cast_before) return;
  for (KernelCall& kernel : casts(l.name + ".gradient_cast", l.out, both))
    op.backward.push_back({std::move(kernel), {}});
}

/// Adds the kernels that prepare the operands for the gradient of the weight: operands that were cast before are
/// transposed, and operands that are gathered again are cast.
void LayerBuilder::transpose_operands(Operator& op, const Linear& l) const {
  const auto add_kernel = [&](const char* what, Bytes moved) {
    if (moved.value > 0) op.backward.push_back(for_weights(elementwise(l.name + what, moved, precision_), {}));
  };
  if (l.cast == Linear::Cast::before) add_kernel(".transpose", fp8_.transpose_traffic(rows_ * l.in));
  if (casts_gathered(l)) add_kernel(".cast_again", fp8_.cast_traffic(rows_ * l.in, row_bytes(l.in), false));
  if (l.gradient_cast_before) add_kernel(".gradient_transpose", fp8_.transpose_traffic(rows_ * l.out));
}

void LayerBuilder::cast(const std::string& name, double width, bool both, const std::string& agree, bool backward) {
  std::vector<KernelCall> kernels = casts(name, width, both);
  const Bytes live = row_bytes(width) + fp8_.element() * (rows_ * width);
  const bool agrees = fp8_.agrees() && !agree.empty();
  const Exchange exchange{agree, Axis::tensor, ExchangeKind::all_reduce, element_size(Precision::fp32), 1};
  Operator op;
  if (backward) {
    for (KernelCall& kernel : kernels) op.backward.push_back({std::move(kernel), {}});
    if (agrees) op.backward_exchanges.push_back(exchange);
    op.backward_live = live;
  } else {
    op.forward = std::move(kernels);
    if (agrees) op.forward_exchanges.push_back(exchange);
    op.forward_live = live;
  }
  add(std::move(op));
}

/// Adds an adapter beside the matrix, in the network's precision. Each tensor rank has its share of the side of the
/// adapter that is split like the matrix, and all of the other side. The exchange of `rank` elements a row is left out.
void LayerBuilder::add_adapter(Operator& op, const Linear& l) {
  const double rank = adapters_.rank;
  const Bytes in = row_bytes(l.in), out = row_bytes(l.out), mask{rows_ * l.in};
  const auto add_trained = [&](const char* side, double in_width, double out_width) {
    const int index = parameter(l.name + side, in_width * out_width);
    ParameterTensor& tensor = layer_.parameters[static_cast<std::size_t>(index)];
    tensor.frozen = false;
    tensor.in = in_width;
    tensor.out = out_width;
    return index;
  };
  const int a = add_trained(".lora_a", l.in, rank), b = add_trained(".lora_b", rank, l.out);
  const auto product = [&](const char* name, double m, double n, double k) {
    return gemm(l.name + name, m, n, k, precision_);
  };
  if (adapters_.dropout > 0) op.forward.push_back(elementwise(l.name + ".lora_dropout", in * 2 + mask, precision_));
  op.forward.push_back(product(".lora_a", rows_, rank, l.in));
  KernelCall b_product = product(".lora_b", rows_, l.out, rank);
  BackwardKernel a_gradient{product(".lora_a.dgrad", rows_, l.in, rank), {}};
  if (fuses_operations_) {  // the products read what they add to
    b_product.work.bytes += out;
    a_gradient.work.bytes += in;
  }
  op.forward.push_back(std::move(b_product));
  if (!fuses_operations_) op.forward.push_back(elementwise(l.name + ".lora_add", out * 3, precision_));
  op.backward.push_back({product(".lora_b.dgrad", rows_, rank, l.out), {}});
  op.backward.push_back(std::move(a_gradient));
  if (adapters_.dropout > 0)
    op.backward.push_back({elementwise(l.name + ".lora_dropout.backward", in * 2 + mask, precision_), {}});
  if (!fuses_operations_) op.backward.push_back({elementwise(l.name + ".lora_gradient_sum", in * 3, precision_), {}});
  op.backward.push_back(for_weights(product(".lora_b.wgrad", rank, l.out, rows_), {b}));
  op.backward.push_back(for_weights(product(".lora_a.wgrad", l.in, rank, rows_), {a}));
  op.saved_tensors.push_back({l.name + ".lora_hidden", row_bytes(rank)});
  if (adapters_.dropout > 0) {
    op.saved_tensors.push_back({l.name + ".lora_mask", mask});
    op.saved_tensors.push_back({l.name + ".lora_input", in});
  }
  op.forward_live += out;
  op.backward_live += in;
}

void LayerBuilder::bias(const std::string& name, double width, bool fused) {
  const Bytes tensor = row_bytes(width), values = element_size(precision_) * width;
  Operator op;
  if (!fused) op.forward.push_back(elementwise(name, tensor * 2 + values, precision_));
  const int added = parameter(name, width);
  if (!adapters_.has_rank()) {
    op.backward.push_back(for_weights(elementwise(name + "_grad", tensor + values, precision_), {added}));
    op.for_weights = tensor;
  }
  op.forward_live = tensor;
  op.backward_live = tensor;
  add(std::move(op));
}

void LayerBuilder::dropout(const Dropout& d) {
  const Bytes tensor = row_bytes(d.width);
  const Bytes mask{rows_ * d.width};
  Operator op;
  if (!d.fused) op.forward.push_back(elementwise(d.name, tensor * 2 + mask, precision_));
  op.backward.push_back({elementwise(d.name + ".backward", tensor * 2 + mask, precision_), {}});
  op.saved_tensors.push_back({d.name + ".mask", mask, d.core});
  op.core = d.core;
  op.forward_live = d.input_kept ? tensor : tensor * 2;
  op.backward_live = d.shares_fork_gradient ? tensor : tensor * 2;
  add(std::move(op));
}

void LayerBuilder::fork(std::string name, double width) {
  const Bytes tensor = residual_bytes(width);
  Operator op;
  op.backward.push_back({elementwise(name + ".gradient_sum", tensor * 3, precision_), {}});
  op.backward_live = tensor * 3;
  const bool first = operators_.empty();  // then the held tensor is the layer's input
  add(std::move(op));
  held_.push_back({tensor, {}, first ? Bytes{} : tensor});
}

void LayerBuilder::join(std::string name, Bytes mask) {
  if (held_.empty()) throw InternalError("layer " + layer_.name + ": join without a fork");
  const Bytes tensor = held_.back().gradients, branch = tensor * (element_size(precision_) / residual_element());
  Operator op;
  if (autocast_) {  // the gradient of the branch's output in 16 bits
    op.backward.push_back({elementwise(name + ".gradient_cast", tensor + branch, precision_), {}});
    op.backward_live = branch;
  }
  const Kernel kind = autocast_ ? Kernel::strided : Kernel::elementwise;
  op.forward.push_back(kernel_call(std::move(name), kind, Flops{}, tensor * 2 + branch + mask, precision_));
  op.forward_live = tensor * 2;
  add(std::move(op));  // before the fork ends: the incoming gradient is the held one
  held_.pop_back();
}

void LayerBuilder::hold(Bytes gradients, Bytes tensors) { held_.push_back({gradients, tensors, tensors}); }

void LayerBuilder::release() {
  if (held_.empty()) throw InternalError("layer " + layer_.name + ": release without a hold");
  held_.pop_back();
}

void LayerBuilder::cross(Crossing c) {
  Operator op;
  const auto live = [&c](const Exchange& exchange) {  // an all-reduce works in place
    return exchange.kind == ExchangeKind::all_reduce ? c.in : c.in + c.out;
  };
  if (!c.forward.name.empty()) {
    op.forward_live = live(c.forward);
    op.forward_exchanges.push_back(std::move(c.forward));
  }
  if (!c.backward.name.empty()) {
    op.backward_live = live(c.backward);
    if (c.backward.kind != ExchangeKind::all_reduce) op.early_live = c.in;
    op.backward_exchanges.push_back(std::move(c.backward));
    op.beside_weights = c.beside_weights;
  }
  add(std::move(op));
}

void LayerBuilder::overlap_since(std::size_t before) {
  int forward = 0, backward = 0;
  for (std::size_t i = before + 1; i + 1 < operators_.size(); ++i) {
    forward += static_cast<int>(operators_[i].forward.size());
    backward += static_cast<int>(operators_[i].backward.size());
  }
  for (Exchange& exchange : operators_[before].forward_exchanges) exchange.needed_by += forward;
  for (Exchange& exchange : operators_.back().backward_exchanges) exchange.needed_by += backward;
}

void LayerBuilder::mover(std::string name, Bytes in, Bytes out, bool core) {
  Operator op;
  op.forward.push_back(elementwise(name, in + out, precision_));
  op.backward.push_back({elementwise(name + ".backward", in + out, precision_), {}});
  op.forward_live = op.backward_live = in + out;
  op.core = core;
  add(std::move(op));
}

void LayerBuilder::shared_input(std::string name, double width, int uses) {
  const Bytes tensor = residual_bytes(width);
  Operator op;
  for (int i = 1; i < uses; ++i)
    op.backward.push_back({elementwise(name + ".gradient_sum", tensor * 3, precision_), {}});
  op.backward_live = tensor * 3;
  add(std::move(op));
}

void LayerBuilder::norm(Norm kind, const std::string& name, double width, bool casts) {
  const bool layer_norm = kind == Norm::layer_norm;
  const Bytes tensor = residual_bytes(width);
  std::vector<int> gradients;
  if (!shared_) gradients.push_back(parameter(name + ".weight", width));
  if (layer_norm) gradients.push_back(parameter(name + ".bias", width));
  const Bytes statistics = element_size(Precision::fp32) * ((layer_norm ? 2 : 1) * rows_);  // (mean,) 1/deviation
  Operator op;
  const Bytes written = casts ? fp8_.element() * (rows_ * width) : tensor;
  op.forward.push_back(elementwise(name, tensor + written + statistics, precision_));
  if (adapters_.has_rank()) {
    op.backward.push_back({elementwise(name + ".input_grad", tensor * 3 + statistics, precision_), {}});
  } else if (fused_norms_) {
    op.backward.push_back({elementwise(name + ".backward", tensor * 3 + statistics, precision_), gradients});
  } else {
    op.backward.push_back({elementwise(name + ".input_grad", tensor * 3 + statistics, precision_), {}});
    op.backward.push_back(
        for_weights(elementwise(name + ".weight_grad", tensor * 2 + statistics, precision_), gradients));
    op.for_weights = tensor * 2 + statistics;
  }
  op.saved_tensors = {{name + ".input", tensor}, {name + ".statistics", statistics}};
  op.forward_live = tensor;
  op.backward_live = tensor * 2;
  add(std::move(op));
}

void LayerBuilder::embedding(const Embedding& e) {
  const Bytes looked_up = residual_element() * (e.lookups * e.width);
  const Bytes table = residual_element() * (e.entries * e.width);
  const Bytes indices = kIndexSize * e.lookups;
  Operator op;
  op.forward.push_back(kernel_call(e.name, Kernel::embedding, Flops{}, looked_up * 2 + indices, precision_));
  const int weight = e.owned ? parameter(e.name + ".weight", e.entries * e.width, e.entries) : -1;
  op.forward_live = looked_up;
  if (!adapters_.has_rank()) {
    const Bytes scattered = table + looked_up * 3 + indices;
    op.backward.push_back({kernel_call(e.name + ".backward", Kernel::embedding, Flops{}, scattered, precision_), {}});
    if (e.tied) op.backward.push_back({elementwise(e.name + ".gradient_sum", table * 3, precision_), {}});
    if (e.owned) op.backward.back().gradients_ready = {weight};
    op.saved_tensors = {{e.name + ".indices", indices}};
    op.backward_live = looked_up;
    if (e.tied) op.backward_live += table;
  }
  add(std::move(op));
}

void LayerBuilder::tables(const Tables& t) {
  const Bytes state = element_size(Precision::fp32), indices = kIndexSize * (rows_ * t.lookups * t.load);
  const Bytes read = t.element * (rows_ * t.lookups * t.load * t.width);
  const Bytes sums = row_bytes(t.vectors * t.width) * t.load;
  const int weight = parameter(t.name + ".weight", t.entries * t.width / t.ranks, t.entries / t.ranks);
  ParameterTensor& table = layer_.parameters[static_cast<std::size_t>(weight)];
  table.active_share = std::min(1.0, t.lookups / t.entries);
  table.expert = table.frozen = true;
  table.stored = t.element + state / t.width;
  Operator op;
  op.forward.push_back(kernel_call(t.name, Kernel::embedding, Flops{}, read + sums + indices, precision_));
  const Bytes updated = sums + read * 2 + state * (2 * rows_ * t.lookups * t.load) + indices * 2;  // sorted first
  op.backward.push_back({kernel_call(t.name + ".update", Kernel::embedding, Flops{}, updated, precision_), {}});
  op.saved_tensors = {{t.name + ".indices", indices}};
  op.forward_live = op.backward_live = sums;
  add(std::move(op));
}

}  // namespace trainyard
