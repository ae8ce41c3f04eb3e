// Losses at the end of the last layer.
#include <utility>

#include "models/networks/layers/layer_builder.hpp"

namespace trainyard {

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
  nll.backward_live = wide + logits;
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
