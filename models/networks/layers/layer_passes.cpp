// Makes the two passes of a layer from its operators: order, exchanges, recomputation, memory.
#include <algorithm>
#include <utility>

#include "models/networks/layers/layer_builder.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

/// Removes the tensors that are not kept under recomputation, and returns their bytes.
template <class IsDropped>
Bytes drop_tensors(std::vector<KeptTensor>& kept, IsDropped is_dropped) {
  const Bytes before = sum_bytes(kept);
  std::erase_if(kept, is_dropped);
  return before - sum_bytes(kept);
}

/// Returns the number of kernels `for_weights` at the end of the list.
int trailing_for_weights(const std::vector<BackwardKernel>& kernels) {
  int count = 0;
  for (auto kernel = kernels.rbegin(); kernel != kernels.rend() && kernel->for_weights; ++kernel) ++count;
  return count;
}

/// Appends exchanges whose kernel numbers count from `kernels_before`.
void append(std::vector<Exchange>& all, const std::vector<Exchange>& exchanges, std::size_t kernels_before) {
  for (Exchange exchange : exchanges) {
    exchange.kernels_before += static_cast<int>(kernels_before);
    exchange.needed_by += static_cast<int>(kernels_before);
    all.push_back(std::move(exchange));
  }
}

/// Inserts kernels at the beginning of the operator's backward pass.
void begin_backward_with(Operator& op, std::vector<BackwardKernel> kernels) {
  for (Exchange& exchange : op.backward_exchanges) {
    exchange.kernels_before += static_cast<int>(kernels.size());
    exchange.needed_by += static_cast<int>(kernels.size());
  }
  kernels.insert(kernels.end(), op.backward.begin(), op.backward.end());
  op.backward = std::move(kernels);
}

/// Recomputes the operators [first, last). The tensors that `is_dropped` selects are freed after the forward pass. They
/// are computed again before the backward kernels of the last of these operators, with the exchanges of the forward
/// pass (the blocks of a ring, the rows of experts).
template <class IsDropped>
void recompute_group(std::vector<Operator>& operators, std::size_t first, std::size_t last, IsDropped is_dropped) {
  std::vector<BackwardKernel> backward;
  std::vector<Exchange> exchanges;
  Bytes dropped_so_far, peak, previous_dropped;
  for (std::size_t i = first; i < last; ++i) {
    Operator& op = operators[i];
    append(exchanges, op.forward_exchanges, backward.size());
    for (const KernelCall& kernel : op.forward) backward.push_back({kernel, {}});
    const Bytes dropped =
        drop_tensors(op.saved_tensors, [&](const KeptTensor& tensor) { return is_dropped(op, tensor); });
    dropped_so_far += dropped;
    op.backward_live += dropped_so_far;
    op.forward_live += previous_dropped + dropped;  // it reads the dropped tensors of the operator before
    previous_dropped = dropped;
    peak = std::max(peak, op.forward_live + dropped_so_far - dropped);
  }
  Operator& end = operators[last - 1];
  begin_backward_with(end, std::move(backward));
  end.backward_exchanges.insert(end.backward_exchanges.begin(), exchanges.begin(), exchanges.end());
  end.backward_live = std::max(end.backward_live, peak);
}

}  // namespace

/// Counts the result of an early exchange of gradients in the memory of the kernels of weights that follow it.
void LayerBuilder::exchange_gradients() {
  for (std::size_t i = 0; i + 1 < operators_.size(); ++i)
    if (operators_[i].beside_weights && trailing_for_weights(operators_[i + 1].backward) > 0)
      operators_[i + 1].backward_live += operators_[i].early_live;
}

void LayerBuilder::share_out_launches() {
  if (launches_ == 0) return;
  std::vector<KernelCall*> kernels;
  for (Operator& op : operators_)
    for (KernelCall& kernel : op.forward) kernels.push_back(&kernel);
  spread_launches(kernels, launches_);
}

void LayerBuilder::recompute_core() {
  for (std::size_t first = 0; first < operators_.size();) {
    std::size_t last = first;
    while (last < operators_.size() && operators_[last].core) ++last;
    if (last > first)
      recompute_group(operators_, first, last, [](const Operator&, const KeptTensor& tensor) { return tensor.core; });
    first = last + 1;
  }
}

/// Keeps only the input of a layer of experts, or of a dense feed-forward part.
void LayerBuilder::recompute_region(RecomputedPart region) {
  const auto in_region = [region](const Operator& op) { return op.region == region; };
  const auto begin = std::ranges::find_if(operators_, in_region);
  const auto end = std::find_if_not(begin, operators_.end(), in_region);
  if (begin == end) return;
  const auto reader = std::find_if(begin, end, [](const Operator& op) { return !op.saved_tensors.empty(); });
  const Operator* first_reader = reader == end ? nullptr : &*reader;
  recompute_group(operators_, static_cast<std::size_t>(begin - operators_.begin()),
                  static_cast<std::size_t>(end - operators_.begin()),
                  [&](const Operator& op, const KeptTensor&) { return &op != first_reader || !op.keeps_input; });
}

/// Frees the kept tensors that operators of a module made, and runs these operators again before the backward kernels
/// of the operator that needs the tensors.
void LayerBuilder::recompute_part(RecomputedPart module) {
  std::vector<BackwardKernel> rerun_kernels;
  for (Operator& op : operators_) {
    const auto is_remade = [&](const KeptTensor& tensor) { return tensor.made_by == module; };
    if (op.module == module)
      for (const KernelCall& kernel : op.forward) rerun_kernels.push_back({kernel, {}});
    if (std::ranges::none_of(op.saved_tensors, is_remade)) continue;
    Bytes freed;
    for (const KeptTensor& tensor : op.saved_tensors)
      if (is_remade(tensor)) freed += tensor.bytes;
    std::erase_if(op.saved_tensors, is_remade);
    op.forward_live += freed;
    op.backward_live += freed;
    begin_backward_with(op, std::exchange(rerun_kernels, {}));
  }
}

void LayerBuilder::lay_out() {
  for (const auto& op : operators_) {
    layer_.saved_tensors.insert(layer_.saved_tensors.end(), op.saved_tensors.begin(), op.saved_tensors.end());
    layer_.kept_for_weights += op.for_weights;
  }
  const Bytes kept_bytes = layer_.activations();
  Bytes kept_so_far;
  for (const auto& op : operators_) {
    append(layer_.forward_exchanges, op.forward_exchanges, layer_.forward.size());
    layer_.forward.insert(layer_.forward.end(), op.forward.begin(), op.forward.end());
    kept_so_far += sum_bytes(op.saved_tensors);
    layer_.forward_transient = std::max(layer_.forward_transient, kept_so_far + op.forward_live - kept_bytes);
    // The tensors of later operators are freed before this one's backward pass, so the same sum applies.
    layer_.backward_transient = std::max(layer_.backward_transient, kept_so_far + op.backward_live - kept_bytes);
  }
  for (auto op = operators_.rbegin(); op != operators_.rend(); ++op) {
    append(layer_.backward_exchanges, op->backward_exchanges, layer_.backward.size());
    if (op->beside_weights) {
      Exchange& exchange = layer_.backward_exchanges.back();
      exchange.kernels_before -= trailing_for_weights(layer_.backward);
      if (!overlap_) exchange.needed_by = exchange.kernels_before;
    }
    layer_.backward.insert(layer_.backward.end(), op->backward.begin(), op->backward.end());
  }
}

/// Returns how many kernels, counted from the start of the forward pass, make all kept tensors.
std::size_t LayerBuilder::kernels_for_kept() const {
  std::size_t kernels = 0, needed = 0;
  for (const Operator& op : operators_) {
    if (!op.saved_tensors.empty() && op.keeps_input) needed = kernels;
    kernels += op.forward.size();
    if (!op.saved_tensors.empty() && !op.keeps_input) needed = kernels;
  }
  return needed;
}

namespace {

/// Returns the tensors that recomputation by operator keeps besides a layer's input: those of attention and the outputs
/// of every second matrix product. Clears `runs_again` for the kernels that need not run again.
std::vector<KeptTensor> kept_by_operator(const std::vector<Operator>& operators, Precision precision,
                                         std::vector<char>& runs_again) {
  std::vector<KeptTensor> kept;
  int products = 0;
  std::size_t kernel = 0;
  for (const Operator& op : operators)
    for (const KernelCall& call : op.forward) {
      const std::size_t index = kernel++;
      if (call.work.flops.value == 0) continue;
      const bool product = kind_of(call.work.kernel) == Kernel::gemm;
      if (product && products++ % 2 != 0) continue;
      if (index < runs_again.size()) runs_again[index] = 0;
      if (product) {
        const GemmShape& shape = shape_of(call.work.kernel);
        kept.push_back({call.name + ".output", element_size(precision) * (shape.m * shape.n * shape.count)});
      } else {
        for (const KeptTensor& tensor : op.saved_tensors)
          if (!tensor.name.ends_with(".qkv")) kept.push_back(tensor);
      }
    }
  return kept;
}

}  // namespace

void LayerBuilder::recompute_all(Bytes input, bool by_operator) {
  Bytes forward;  // without autograd an operator's tensors are freed when the next one has read them
  for (const auto& op : operators_)
    forward = std::max(forward, sum_bytes(op.saved_tensors) + op.forward_live + op.residual);
  const Bytes kept_bytes = layer_.activations();
  const Bytes rerun_memory = std::max(layer_.forward_transient + layer_.output, layer_.backward_transient);
  std::vector<char> runs_again(early_stop_ || by_operator ? kernels_for_kept() : layer_.forward.size(), 1);
  layer_.saved_tensors = {{"input", input}};
  if (by_operator)
    for (KeptTensor& tensor : kept_by_operator(operators_, precision_, runs_again))
      layer_.saved_tensors.push_back(std::move(tensor));
  layer_.forward_transient = forward;
  layer_.backward_transient = kept_bytes + rerun_memory - layer_.activations();
  layer_.recomputes_all = true;

  std::vector<BackwardKernel> backward;
  std::vector<int> place;  // index in `backward` of each forward kernel, and of the end
  for (std::size_t i = 0; i < runs_again.size(); ++i) {
    place.push_back(static_cast<int>(backward.size()));
    if (runs_again[i]) backward.push_back({layer_.forward[i], {}});
  }
  place.push_back(static_cast<int>(backward.size()));
  std::vector<Exchange> exchanges;
  for (Exchange exchange : layer_.forward_exchanges) {
    const int end = static_cast<int>(runs_again.size());
    if (exchange.kernels_before > end || (by_operator && exchange.kind == ExchangeKind::reduce_scatter)) continue;
    exchange.kernels_before = place[static_cast<std::size_t>(exchange.kernels_before)];
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
  share_out_launches();
  const bool recomputes_layer = recompute == Recompute::full || recompute == Recompute::operators;
  if (recompute == Recompute::selective) recompute_core();
  for (const RecomputedPart region : {RecomputedPart::moe, RecomputedPart::mlp})
    if (recomputed_parts_[static_cast<std::size_t>(region)] && !recomputes_layer) recompute_region(region);
  for (int module = 1; module < kRecomputedParts && !recomputes_layer; ++module)
    if (recomputed_parts_[static_cast<std::size_t>(module)]) recompute_part(static_cast<RecomputedPart>(module));
  lay_out();
  if (recomputes_layer) recompute_all(input, recompute == Recompute::operators);
  return std::move(layer_);
}

}  // namespace trainyard
