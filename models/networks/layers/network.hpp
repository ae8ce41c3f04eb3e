#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "models/networks/layers/exchange.hpp"
#include "models/networks/layers/expert_routing.hpp"
#include "models/networks/layers/sharding.hpp"
#include "sim/op.hpp"

namespace trainyard {

/// One kernel launch. `work` is that of one micro-batch. FLOPs are counted for matrix products and convolutions only (a
/// multiply-add is two); all other kernels are bound by memory and have only bytes.
struct KernelCall {
  std::string name;
  Work work;
  /// The host reads a result of the kernel, such as the number of rows of each expert, before it launches the next one.
  bool host_reads = false;
};

/// Shares out the host's launches evenly among kernels, in whole numbers of at least one.
void spread_launches(const std::vector<KernelCall*>&, double launches);

/// A kernel of the backward pass. `gradients_ready` are indices into `Layer::parameters`: the gradients of these
/// tensors are final (for this micro-batch) when this kernel ends, so a bucket that holds them may then be sent.
struct BackwardKernel : KernelCall {
  std::vector<int> gradients_ready;
  /// The kernel makes only gradients of parameters, so that earlier layers need not wait for it (zero-bubble pipelines
  /// put it off).
  bool for_weights = false;
};

/// A learned tensor. Only the layer that owns a tensor lists it. A tensor of two layers (a tied embedding) is listed by
/// the first layer, whose backward kernel comes last and completes the gradient.
struct ParameterTensor {
  std::string name;
  double elements = 0;
  /// Share of the elements that a token of the network uses on average. It is below 1 for routed experts (the chosen
  /// ones among all) and for the two halves of an encoder-decoder (the half's tokens among all).
  double active_share = 1;
  bool expert = false;       ///< part of routed experts: spread over the expert axis, so that fewer ranks have replicas
  bool partial = false;      ///< each rank of the tensor axis makes a summand of its gradient
  double in = 0, out = 0;    ///< size of one matrix of a linear layer's weight; 0: no such weight
  double rows = 0;           ///< rows of another matrix: an embedding's entries, a convolution's output channels
  bool frozen = false;       ///< it has no gradient and no optimizer states, or its backward kernel updates it
  Bytes stored = {};         ///< size of an element of a frozen tensor with its state; 0: the network's precision
  Bytes scales = {};         ///< scales of blocks for each element, besides the element
  bool accumulated = false;  ///< the kernel of its gradient adds it to that of earlier micro-batches
};

/// A tensor kept from the forward to the backward pass of one micro-batch.
struct KeptTensor {
  std::string name;
  Bytes bytes;
  bool core = false;  ///< part of the core of attention, which selective recomputation computes again
  RecomputedPart made_by = RecomputedPart::none;  ///< part of the block that makes it
};
Bytes sum_bytes(const std::vector<KeptTensor>&);

/// A part of a network that runs without interruption. The network can be split between two layers.
struct Layer {
  std::string name;
  std::vector<ParameterTensor> parameters;
  std::vector<KernelCall> forward;       ///< in execution order
  std::vector<BackwardKernel> backward;  ///< in execution order
  /// Sorted by `kernels_before`. Empty if one device has the whole layer.
  std::vector<Exchange> forward_exchanges, backward_exchanges;
  int recomputed_exchanges = 0;  ///< number of first backward exchanges that belong to the recomputed forward pass
  bool recomputes_all = false;   ///< the backward pass begins with all of the forward pass
  std::vector<KeptTensor> saved_tensors;  ///< each tensor once, with the first operator that saves it
  /// Bytes of saved tensors and of incoming gradients that the kernels `for_weights` read, if these are put off.
  Bytes kept_for_weights;
  double tied_elements = 0;  ///< elements of a weight that this layer uses and an earlier layer lists
  /// Number of an earlier layer with which this one shares a block of weights. That layer lists them. -1: none.
  int shared_layer = -1;
  /// Forward FLOPs of attention's two products over all pairs of a query and a key, including masked ones (PaLM, app.
  /// B).
  Flops attention;
  /// Number of matrix products in fp8 whose scales come from maxima of earlier steps, on which ranks agree
  /// (Fp8Scaling::delayed).
  int delayed_products = 0;
  Bytes lasting;                 ///< buffers that stay allocated after their first use
  Bytes output;                  ///< input of the next layer; its gradient has the same size
  bool output_in_parts = false;  ///< each rank of the tensor axis has another part of it; false: all have the same
  /// Highest memory in the pass beyond `activations()`, without gradients of parameters: tensors that live only within
  /// the layer, and `output`.
  Bytes forward_transient, backward_transient;

  double parameter_elements() const;
  double active_elements() const;  ///< weighted by `ParameterTensor::active_share`
  Bytes activations() const;       ///< sum of `saved_tensors`
  Flops forward_flops() const;
  Flops backward_flops() const;
};

/// The work of a neural network for one micro-batch on one device: all of it, or the part of one rank on the tensor,
/// context and expert axes (see `Sharding`).
struct Network {
  std::string name;
  std::string source;         ///< source of its dimensions; "": not stated
  std::vector<Layer> layers;  ///< in the order of the forward pass; the last one ends with the loss
  Precision precision = Precision::fp32;
  std::int64_t samples = 1;            ///< number of samples in one micro-batch
  std::int64_t tokens_per_sample = 1;  ///< sequence length (of both halves together); 1 without sequences
  bool weights_reused = false;         ///< weights are used at many positions of a sample, as in convolutions
  ExpertRouting routing;               ///< `experts` 0: there are none
  Bytes tables;                        ///< tables that every stage holds throughout: fp32 angles of rotary positions

  double parameters() const;                ///< number of elements, each tied tensor counted once
  double frozen_active_parameters() const;  ///< active parameters that are not trained
  double active_parameters() const;         ///< elements that a token uses on average: `ParameterTensor::active_share`
  std::int64_t tokens() const { return samples * tokens_per_sample; }
  Flops forward_flops() const;   ///< executed for one micro-batch
  Flops backward_flops() const;  ///< executed for one micro-batch, including recomputation
  Bytes activations() const;     ///< bytes that all layers keep for one micro-batch
  /// Model FLOPs a token for MFU: 6 · active parameters (2 forward, 4 backward; Kaplan et al. 2020, §2.1). All
  /// parameters are active, including embeddings, with two exceptions: of routed experts only the share that one token
  /// uses, and of an encoder-decoder each half for its own tokens. Frozen parameters count 4, because they have no
  /// gradients. Attention scores do not count. If weights are reused: three times the forward FLOPs of a sample.
  Flops model_flops_per_token() const;
  /// FLOPs a token that PaLM's MFU (Chowdhery et al. 2022, app. B) adds: 12 · L · h · s for L layers of width h and s
  /// tokens.
  Flops attention_flops_per_token() const;
};

/// C(m×n) = A(m×k) · B(k×n), `batch` times: each has 2·m·n·k FLOPs and moves mk + kn + mn elements. in_turn,
/// in_blocks: see `GemmShape`.
KernelCall gemm(std::string name, double m, double n, double k, Precision, double batch = 1, bool in_turn = false,
                bool in_blocks = false);
/// A kernel that only moves bytes (reads and writes together).
KernelCall elementwise(std::string name, Bytes, Precision);
/// An eager elementwise kernel on strided, broadcast or mixed operands (`Kernel::strided`).
KernelCall strided_elementwise(std::string name, Bytes, Precision);
KernelCall kernel_call(std::string name, Kernel, Flops, Bytes, Precision);

/// Throws UserError unless the precision is fp64, fp32, tf32, fp16 or bf16: weights, activations and matrix products
/// are all in this precision. With fp8 and int8, weights are kept in another one and casts are added; that is not
/// modelled.
void require_training_precision(Precision);

enum class Norm : std::uint8_t { layer_norm, rms_norm };

}  // namespace trainyard
