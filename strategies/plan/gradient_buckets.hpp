#pragma once
#include <vector>

#include "models/networks/layers/network.hpp"

namespace trainyard {

/// Gradients that are exchanged together.
struct GradientBucket {
  struct Part {
    int layer = 0, tensor = 0;
    double elements = 0;  ///< elements of the tensor in this bucket; all of them if buckets hold whole tensors
    double first = 0;     ///< index of the first of these elements in the tensor
  };
  double elements = 0;
  double frozen = 0;  ///< elements of frozen parameters that are gathered with the bucket (see layer_buckets)
  /// Further elements of the plan's parameter_element that gathering takes for parameters that are wider than that.
  double widening = 0;
  std::vector<Part> parts;
  int layer = 0, kernel = 0;  ///< the backward kernel after which its last gradient is final
  bool experts = false;       ///< true: gradients of routed experts
  /// Leaves after the backward pass, once its gradients are summed with those of another stage.
  bool late = false;

  double gathered() const { return elements + frozen + widening; }
};

/// Bucket sizes that a plan chooses.
struct BucketChoice {
  Bytes first, rest;
  bool whole_tensors = false;
};

/// Cuts gradients into buckets, in the order in which the backward pass finishes them: one of `first` bytes, then of
/// `rest` bytes. With whole tensors, a bucket closes with the tensor that reaches its size (PyTorch DDP,
/// compute_bucket_assignment_by_size); otherwise tensors are split and buckets have exactly that size.
std::vector<GradientBucket> gradient_buckets(const Network&, Bytes element, Bytes first, Bytes rest,
                                             bool whole_tensors);
/// Returns the buckets of the gradients of some layers only, given by their numbers in ascending order. Routed experts
/// have buckets of their own.
std::vector<GradientBucket> gradient_buckets(const Network&, const std::vector<int>& layers, Bytes element, Bytes first,
                                             Bytes rest, bool whole_tensors);
/// Returns the size that ZeRO stage 3 gathers for a tensor, in elements of the precision. A frozen tensor is gathered
/// in the format in which it is stored.
double gathered_elements(const ParameterTensor&, Precision);
/// Returns what gathering a trained tensor takes beyond its elements, in units of `parameter_element`. That is 0 if all
/// parameters travel in one size. If it is smaller than the network's (fp8), only weights of linear layers travel in it
/// whose layer has such products; embedding, head, norms and blocks in 16 bits do not (Transformer Engine keeps only
/// weights of its own modules in fp8; Megatron-Core gathers by the type of each parameter, param_and_grad_buffer.py).
double gather_widening(const Network&, const Layer&, const ParameterTensor&, Bytes parameter_element);
/// Sets `widening` of buckets.
void widen_gathers(std::vector<GradientBucket>&, const Network&, Bytes parameter_element);
/// Returns one bucket for each layer (and one for its routed experts), including frozen parameters.
std::vector<GradientBucket> layer_buckets(const Network&, const std::vector<int>& layers);

}  // namespace trainyard
