// Makes the two passes of a layer from its operators: order, exchanges, recomputation, memory.
// Losses at the end of the last layer.
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
  if (exchanges.empty()) return;
  for (Exchange exchange : exchanges) {
    exchange.kernels_before += static_cast<int>(kernels_before);
    exchange.needed_by += static_cast<int>(kernels_before);
    all.push_back(std::move(exchange));
  }
}

/// Reserves the memory of the passes exactly: searches hold networks with hundreds of exchanges in each layer.
void reserve_passes(Layer& layer, const std::vector<Operator>& operators) {
  std::size_t forward = 0, backward = 0, forward_exchanges = 0, backward_exchanges = 0, tensors = 0;
  for (const Operator& op : operators) {
    forward += op.forward.size();
    backward += op.backward.size();
    forward_exchanges += op.forward_exchanges.size();
    backward_exchanges += op.backward_exchanges.size();
    tensors += op.saved_tensors.size();
  }
  layer.forward.reserve(forward);
  layer.backward.reserve(backward);
  layer.forward_exchanges.reserve(forward_exchanges);
  layer.backward_exchanges.reserve(backward_exchanges);
  layer.saved_tensors.reserve(tensors);
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
  reserve_passes(layer_, operators_);
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
  backward.reserve(backward.size() + layer_.backward.size());
  std::vector<Exchange> exchanges;
  exchanges.reserve(layer_.forward_exchanges.size() + layer_.backward_exchanges.size());
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

void LayerBuilder::cross_entropy(double classes, bool fused) {
  const Bytes logits = row_bytes(classes);
  const Bytes targets = kIndexSize * rows_;
  if (fused) {
    // Forward reads logits twice (for the sum and for the gradient) and writes the gradient. Backward scales it.
    Operator op;
    op.forward.push_back(elementwise("cross_entropy", logits * 3 + targets, precision_));
    op.backward.push_back({elementwise("cross_entropy.backward", logits * 2, precision_), {}});
    op.saved_tensors = {{"logits", logits}, {"targets", targets}};
    add(std::move(op));
    return;
  }
  if (autocast_) return autocast_cross_entropy(classes);
  const bool cast = element_size(precision_) < element_size(Precision::fp32);
  const Precision wide = cast ? Precision::fp32 : precision_;
  const Bytes tensor = element_size(wide) * (rows_ * classes);
  Operator copy;
  copy.saved_tensors = {{"logits", logits}};
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
  log_softmax.saved_tensors = {{"log_probabilities", tensor}};
  if (cast) log_softmax.forward_live = tensor;
  log_softmax.backward_live = tensor * 2;
  add(std::move(log_softmax));

  Operator nll;  // picks one log-probability of each row; its gradient is a zero tensor with one entry in each row
  const Bytes picked = element_size(wide) * rows_;
  nll.forward.push_back(elementwise("nll_loss", picked + targets, wide));
  nll.backward.push_back({elementwise("nll_loss.backward", tensor + picked + targets, wide), {}});
  nll.saved_tensors = {{"targets", targets}};
  nll.backward_live = tensor;
  add(std::move(nll));
}

/// The logarithm of the softmax is in 16 bits, and autocast casts it to fp32 for the loss (a profile of PyTorch 2.11).
/// Rows are longer than a block's memory: forward a kernel reads them for their maximum and sum, and again to write;
/// backward it reads the gradient twice.
void LayerBuilder::autocast_cross_entropy(double classes) {
  const Bytes logits = row_bytes(classes), targets = kIndexSize * rows_;
  const Bytes wide = element_size(Precision::fp32) * (rows_ * classes), picked = element_size(Precision::fp32) * rows_;
  Operator log_softmax;
  log_softmax.forward.push_back(elementwise("log_softmax", logits * 3, precision_));
  log_softmax.backward.push_back({elementwise("log_softmax.backward", logits * 4, precision_), {}});
  log_softmax.saved_tensors = {{"log_probabilities", logits}};
  log_softmax.forward_live = logits;
  log_softmax.backward_live = logits * 2;
  add(std::move(log_softmax));

  Operator nll;
  nll.forward = {autocast_kernel("log_probabilities_cast", rows_ * classes),
                 elementwise("nll_loss", picked + targets, precision_)};
  nll.backward = {{elementwise("nll_loss.backward", wide + picked + targets, precision_), {}},
                  {autocast_kernel("log_probabilities_cast.backward", rows_ * classes), {}}};
  nll.saved_tensors = {{"log_probabilities_copy", wide}, {"targets", targets}};
  nll.backward_live = wide;  // autograd frees the copy before the gradient is cast
  add(std::move(nll));
}

void LayerBuilder::sharded_cross_entropy(const std::string& prefix, double classes, bool fused) {
  const Bytes logits = row_bytes(classes), targets = kIndexSize * rows_;
  const Bytes number = element_size(Precision::fp32) * rows_;
  const Exchange maximum{prefix + ".maximum", Axis::tensor, ExchangeKind::all_reduce, number, 1, 1};
  Exchange sums{prefix + ".sums", Axis::tensor, ExchangeKind::all_reduce, number * 2};
  Operator op;
  if (fused) {
    op.forward = {elementwise("cross_entropy.maximum", logits + number, precision_),
                  elementwise("cross_entropy.sums", logits + targets + number * 3, precision_),
                  elementwise("cross_entropy", logits * 2 + number * 2 + targets, precision_)};
    op.backward.push_back({elementwise("cross_entropy.backward", logits * 2, precision_), {}});
    op.saved_tensors = {{"logits", logits}, {"targets", targets}};
    sums.kernels_before = sums.needed_by = 2;
    op.forward_exchanges = {maximum, sums};
    add(std::move(op));
    return;
  }
  const bool cast = element_size(precision_) < element_size(Precision::fp32);
  const Precision wide = cast ? Precision::fp32 : precision_;
  const Bytes tensor = element_size(wide) * (rows_ * classes);
  if (cast) {
    Operator copy;
    copy.forward.push_back(elementwise("logits_to_fp32", logits + tensor, wide));
    copy.backward.push_back({elementwise("logits_to_fp32.backward", tensor + logits, wide), {}});
    copy.forward_live = copy.backward_live = tensor + logits;
    add(std::move(copy));
  }
  op.forward = {elementwise("cross_entropy.maximum", tensor + number, wide),
                elementwise("cross_entropy.subtract", tensor * 2 + number, wide),
                elementwise("cross_entropy.exponential", tensor * 2, wide),
                elementwise("cross_entropy.sums", tensor + targets + number * 2, wide),
                elementwise("cross_entropy.divide", tensor * 2 + number, wide)};
  op.backward.push_back({elementwise("cross_entropy.backward", tensor * 2 + targets, wide), {}});
  op.saved_tensors = {{"probabilities", tensor}, {"targets", targets}};
  op.forward_live = logits;
  sums.kernels_before = sums.needed_by = 4;
  op.forward_exchanges = {maximum, sums};
  add(std::move(op));
}

}  // namespace trainyard
