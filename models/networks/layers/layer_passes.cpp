// From operators to the two passes of a layer: order, exchanges, recomputation, memory.
#include <algorithm>
#include <utility>

#include "models/networks/layers/layer_builder.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

Bytes total_of(const std::vector<KeptTensor>& kept) {
  Bytes total;
  for (const auto& tensor : kept) total += tensor.bytes;
  return total;
}
Bytes core_bytes(const std::vector<KeptTensor>& kept) { return total_of(kept) - kept_without_core(kept); }

/// Kernels `for_weights` that end the list.
int trailing_for_weights(const std::vector<BackwardKernel>& kernels) {
  int count = 0;
  for (auto kernel = kernels.rbegin(); kernel != kernels.rend() && kernel->for_weights; ++kernel) ++count;
  return count;
}

void append(std::vector<Exchange>& to, const std::vector<Exchange>& exchanges, std::size_t kernels_before) {
  for (Exchange exchange : exchanges) {
    exchange.after += static_cast<int>(kernels_before);
    exchange.needed_by += static_cast<int>(kernels_before);
    to.push_back(std::move(exchange));
  }
}

/// The operator's backward pass begins with these kernels.
void begin_backward_with(Operator& op, std::vector<BackwardKernel> kernels) {
  for (Exchange& exchange : op.backward_exchanges) {
    exchange.after += static_cast<int>(kernels.size());
    exchange.needed_by += static_cast<int>(kernels.size());
  }
  kernels.insert(kernels.end(), op.backward.begin(), op.backward.end());
  op.backward = std::move(kernels);
}

/// Operators [first, last) are the core of attention: what they keep for themselves is gone after the forward pass, and
/// made again before the last one's backward kernels, with what ranks exchange for it (the blocks of a ring).
void recompute_group(std::vector<Operator>& operators, std::size_t first, std::size_t last) {
  std::vector<BackwardKernel> backward;
  std::vector<Exchange> exchanges;
  Bytes made, peak, before;
  for (std::size_t i = first; i < last; ++i) {
    Operator& op = operators[i];
    append(exchanges, op.forward_exchanges, backward.size());
    for (const KernelCall& kernel : op.forward) backward.push_back({kernel, {}});
    const Bytes core = core_bytes(op.kept);
    made += core;
    op.backward_live += made;
    op.forward_live += before + core;  // what the one before made is read here
    before = core;
    peak = std::max(peak, op.forward_live + made - core);
    std::erase_if(op.kept, [](const KeptTensor& tensor) { return tensor.core; });
  }
  Operator& end = operators[last - 1];
  begin_backward_with(end, std::move(backward));
  end.backward_exchanges.insert(end.backward_exchanges.begin(), exchanges.begin(), exchanges.end());
  end.backward_live = std::max(end.backward_live, peak);
}

}  // namespace

Bytes kept_without_core(const std::vector<KeptTensor>& kept) {
  Bytes total;
  for (const auto& tensor : kept)
    if (!tensor.core) total += tensor.bytes;
  return total;
}

/// Where a gradient goes out before the kernels of weights, its sum comes in beside their tensors.
void LayerBuilder::exchange_gradients() {
  for (std::size_t i = 0; i + 1 < operators_.size(); ++i)
    if (operators_[i].beside_weights && trailing_for_weights(operators_[i + 1].backward) > 0)
      operators_[i + 1].backward_live += operators_[i].early_live;
}

void LayerBuilder::recompute_core() {
  for (std::size_t first = 0; first < operators_.size();) {
    std::size_t last = first;
    while (last < operators_.size() && operators_[last].core) ++last;
    if (last > first) recompute_group(operators_, first, last);
    first = last + 1;
  }
}

/// Operators of a module run once more before the backward kernels of the one that keeps what they made.
void LayerBuilder::remake(Remade module) {
  std::vector<BackwardKernel> again;
  for (Operator& op : operators_) {
    const auto made = [&](const KeptTensor& tensor) { return tensor.made_by == module; };
    if (op.module == module)
      for (const KernelCall& kernel : op.forward) again.push_back({kernel, {}});
    if (std::none_of(op.kept.begin(), op.kept.end(), made)) continue;
    Bytes gone;
    for (const KeptTensor& tensor : op.kept)
      if (made(tensor)) gone += tensor.bytes;
    std::erase_if(op.kept, made);
    op.forward_live += gone;
    op.backward_live += gone;
    begin_backward_with(op, std::exchange(again, {}));
  }
}

void LayerBuilder::lay_out() {
  for (const auto& op : operators_) {
    layer_.kept.insert(layer_.kept.end(), op.kept.begin(), op.kept.end());
    layer_.kept_for_weights += op.for_weights;
  }
  const Bytes all = layer_.activations();
  Bytes kept_so_far;
  for (const auto& op : operators_) {
    append(layer_.forward_exchanges, op.forward_exchanges, layer_.forward.size());
    layer_.forward.insert(layer_.forward.end(), op.forward.begin(), op.forward.end());
    kept_so_far += total_of(op.kept);
    layer_.forward_transient = std::max(layer_.forward_transient, kept_so_far + op.forward_live - all);
    // What later operators saved is freed by the time this one's backward runs, so the same sum applies.
    layer_.backward_transient = std::max(layer_.backward_transient, kept_so_far + op.backward_live - all);
  }
  for (auto op = operators_.rbegin(); op != operators_.rend(); ++op) {
    append(layer_.backward_exchanges, op->backward_exchanges, layer_.backward.size());
    if (op->beside_weights) {
      Exchange& exchange = layer_.backward_exchanges.back();
      exchange.after -= trailing_for_weights(layer_.backward);
      if (!overlap_) exchange.needed_by = exchange.after;
    }
    layer_.backward.insert(layer_.backward.end(), op->backward.begin(), op->backward.end());
  }
}

/// So many of the first kernels of the forward pass make all that it keeps.
std::size_t LayerBuilder::kernels_for_kept() const {
  std::size_t kernels = 0, needed = 0;
  for (const Operator& op : operators_) {
    if (!op.kept.empty() && op.keeps_input) needed = kernels;
    kernels += op.forward.size();
    if (!op.kept.empty() && !op.keeps_input) needed = kernels;
  }
  return needed;
}

namespace {

/// What recomputation by operator keeps besides a layer's input: what attention and every second matrix product make.
std::vector<KeptTensor> kept_by_operator(const std::vector<Operator>& operators, Precision precision,
                                         std::vector<char>& runs_again) {
  std::vector<KeptTensor> kept;
  int products = 0;
  std::size_t kernel = 0;
  for (const Operator& op : operators)
    for (const KernelCall& call : op.forward) {
      const std::size_t at = kernel++;
      if (call.work.flops.value == 0) continue;
      const bool product = kind_of(call.work.kernel) == Kernel::gemm;
      if (product && products++ % 2 != 0) continue;
      if (at < runs_again.size()) runs_again[at] = 0;
      if (product) {
        const GemmShape& shape = shape_of(call.work.kernel);
        kept.push_back({call.name + ".output", element_size(precision) * (shape.m * shape.n * shape.count)});
      } else {
        for (const KeptTensor& tensor : op.kept)
          if (!tensor.name.ends_with(".qkv")) kept.push_back(tensor);
      }
    }
  return kept;
}

}  // namespace

void LayerBuilder::recompute_all(Bytes input, bool by_operator) {
  Bytes forward;  // without autograd each operator's tensors go when the next one has read them
  for (const auto& op : operators_) forward = std::max(forward, total_of(op.kept) + op.forward_live + op.residual);
  const Bytes all = layer_.activations();
  const Bytes again = std::max(layer_.forward_transient + layer_.output, layer_.backward_transient);
  std::vector<char> runs_again(early_stop_ || by_operator ? kernels_for_kept() : layer_.forward.size(), 1);
  layer_.kept = {{"input", input}};
  if (by_operator)
    for (KeptTensor& tensor : kept_by_operator(operators_, precision_, runs_again))
      layer_.kept.push_back(std::move(tensor));
  layer_.forward_transient = forward;
  layer_.backward_transient = all + again - layer_.activations();
  layer_.recomputes_all = true;

  std::vector<BackwardKernel> backward;
  std::vector<int> place;  // of each kernel that runs again, and of the end
  for (std::size_t i = 0; i < runs_again.size(); ++i) {
    place.push_back(static_cast<int>(backward.size()));
    if (runs_again[i]) backward.push_back({layer_.forward[i], {}});
  }
  place.push_back(static_cast<int>(backward.size()));
  std::vector<Exchange> exchanges;
  for (Exchange exchange : layer_.forward_exchanges) {
    const int end = static_cast<int>(runs_again.size());
    if (exchange.after > end || (by_operator && exchange.what == Exchanged::reduce_scatter)) continue;
    exchange.after = place[static_cast<std::size_t>(exchange.after)];
    exchange.needed_by = place[static_cast<std::size_t>(std::min(exchange.needed_by, end))];
    exchanges.push_back(std::move(exchange));
  }
  layer_.recomputed_exchanges = static_cast<int>(exchanges.size());
  append(exchanges, layer_.backward_exchanges, backward.size());
  backward.insert(backward.end(), layer_.backward.begin(), layer_.backward.end());
  layer_.backward = std::move(backward);
  layer_.backward_exchanges = std::move(exchanges);
}

Layer LayerBuilder::build(Bytes output, Recompute recompute, Bytes input) && {
  if (!held_.empty())
    throw InternalError("layer " + layer_.name + ": a fork was never joined, or a hold never released");
  layer_.output = output;
  exchange_gradients();
  const bool whole = recompute == Recompute::full || recompute == Recompute::operators;
  if (recompute == Recompute::selective) recompute_core();
  for (int module = 1; module < kRemade && !whole; ++module)
    if (remade_[static_cast<std::size_t>(module)]) remake(static_cast<Remade>(module));
  lay_out();
  if (whole) recompute_all(input, recompute == Recompute::operators);
  return std::move(layer_);
}

}  // namespace trainyard
