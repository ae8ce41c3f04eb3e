#pragma once
#include <vector>

#include "models/networks/layers/network.hpp"

namespace trainyard {

/// Gradients that travel together.
struct GradientBucket {
  struct Part {
    int layer = 0, tensor = 0;
    double elements = 0;  ///< of the tensor in this bucket (all of them, where buckets hold whole tensors)
    double first = 0;     ///< of these elements in the tensor
  };
  double elements = 0;
  double frozen = 0;  ///< of a layer's bucket: what is gathered with them but has no gradient, as so many elements
  std::vector<Part> parts;
  int layer = 0, kernel = 0;  ///< the backward kernel that makes its last gradient final
  bool experts = false;       ///< of routed experts
  bool late = false;          ///< leaves after the backward pass: its gradients are summed with another stage's before

  double gathered() const { return elements + frozen; }
};

/// Sizes of buckets, as a plan says them.
struct BucketChoice {
  Bytes first, rest;
  bool whole_tensors = false;
};

/// Gradients in the order in which the backward pass makes them final, cut into buckets of `first`, then `rest` bytes.
/// Whole tensors: a bucket closes with the tensor that reaches its size (PyTorch DDP, compute_bucket_assignment_by_size);
/// otherwise tensors are split and buckets are of the exact size.
std::vector<GradientBucket> gradient_buckets(const Network&, Bytes element, Bytes first, Bytes rest,
                                             bool whole_tensors);
/// The same of some layers only, given by their numbers in ascending order; routed experts' apart from the others'.
std::vector<GradientBucket> gradient_buckets(const Network&, const std::vector<int>& layers, Bytes element, Bytes first,
                                             Bytes rest, bool whole_tensors);
/// What ZeRO's third stage gathers of a tensor, in elements of the precision: frozen ones go as they lie in memory.
double gathered_elements(const ParameterTensor&, Precision);
/// One bucket a layer (and one for its routed experts), with what is frozen there.
std::vector<GradientBucket> layer_buckets(const Network&, const std::vector<int>& layers);

}  // namespace trainyard
