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

/// One kernel launch; `work` is that of ONE micro-batch. FLOPs are counted for matrix products and
/// convolutions only (a multiply-add is two): all other kernels are bound by memory and have bytes alone.
struct KernelCall {
  std::string name;
  Work work;
};

/// A kernel of the backward pass. `gradients_ready` are the indices into `Layer::parameters` of the tensors whose
/// gradient is final (for this micro-batch) once this kernel has ended: a bucket that holds them may leave then.
struct BackwardKernel : KernelCall {
  std::vector<int> gradients_ready;
  /// Makes gradients of parameters and nothing else: the layers before need not wait for it (zero-bubble pipelines put
  /// it off).
  bool for_weights = false;
};

/// A learned tensor. Only the layer that owns a tensor lists it: one shared by two layers (a tied embedding) is listed
/// by the first, whose backward kernel comes last and so makes the gradient final.
struct ParameterTensor {
  std::string name;
  double elements = 0;
  /// Share of the elements that a token of the network meets on average. Below 1 for routed experts (the chosen ones of
  /// all) and for the two halves of an encoder-decoder (its own tokens of all).
  double active_share = 1;
  bool expert = false;       ///< of routed experts: spread over the expert axis, so that fewer ranks have the same
  bool partial = false;      ///< each rank of the tensor axis makes a part of its gradient, which is their sum
  double in = 0, out = 0;    ///< of one matrix of a linear layer's weight; 0: it is none
  double rows = 0;           ///< of another matrix: an embedding's entries, a convolution's output channels
  bool frozen = false;       ///< has no gradient and no states
  Bytes stored = {};         ///< an element of a frozen tensor; 0: as the network's precision has it
  bool accumulated = false;  ///< the kernel that makes its gradient adds it to that of earlier micro-batches
};

/// A tensor kept from the forward to the backward pass of one micro-batch.
struct KeptTensor {
  std::string name;
  Bytes bytes;
  bool core = false;  ///< within the core of attention, which selective recomputation makes again
  Remade made_by = Remade::none;
};

/// What runs without interruption, and what a network is split at.
struct Layer {
  std::string name;
  std::vector<ParameterTensor> parameters;
  std::vector<KernelCall> forward;                              ///< in execution order
  std::vector<BackwardKernel> backward;                         ///< in execution order
  std::vector<Exchange> forward_exchanges, backward_exchanges;  ///< by `after`; none where one device has the layer
  /// Where the backward pass begins with the forward pass once more: so many of its first exchanges are that one's.
  int recomputed_exchanges = 0;
  bool recomputes_all = false;   ///< the backward pass begins with all of the forward pass
  std::vector<KeptTensor> kept;  ///< each tensor once, with the first operator that saves it
  /// Of `kept`, and of gradients that come in: what the kernels `for_weights` read, where these are put off.
  Bytes kept_for_weights;
  double tied_elements = 0;  ///< of a weight that an earlier layer lists, and this one uses too
  /// Forward FLOPs of attention's two products over all pairs of a query and a key, masked ones too (PaLM, app. B).
  Flops attention;
  /// Matrix products in fp8 whose scales come from the maxima of earlier steps, which ranks agree on (Fp8Scaling::delayed).
  int delayed_products = 0;
  Bytes lasting;                 ///< buffers that stay once they have been used
  Bytes output;                  ///< what the next layer is given: its gradient, coming back, is as large
  bool output_in_parts = false;  ///< each rank of the tensor axis has another part of it; false: all have the same
  /// The highest memory in the pass above what the layer keeps in all (`activations()`), gradients of parameters left
  /// out: tensors that live only within the layer, and `output`.
  Bytes forward_transient, backward_transient;

  double parameter_elements() const;
  double active_elements() const;  ///< each by `ParameterTensor::active_share`
  Bytes activations() const;       ///< sum of `kept`
  Flops forward_flops() const;
  Flops backward_flops() const;
};

/// Do passes of both take equally long?
bool takes_as_long(const Layer&, const Layer&);

/// A neural network as work, for one micro-batch on one device: all of it, or what one rank of a tensor, context and
/// expert axis does (see `Sharding`).
struct Network {
  std::string name;
  std::string source;         ///< where its dimensions come from, "" where not stated
  std::vector<Layer> layers;  ///< in the order of the forward pass; the last one ends with the loss
  Precision precision = Precision::fp32;
  std::int64_t samples = 1;            ///< in one micro-batch
  std::int64_t tokens_per_sample = 1;  ///< sequence length (of both halves together); 1 where a sample is one example
  bool weights_reused = false;         ///< at many places of one sample, as by convolutions
  ExpertRouting routing;               ///< experts: 0 where there are none
  Bytes tables;                        ///< that every stage holds throughout: fp32 angles of rotary positions

  double parameters() const;                ///< elements, each tied tensor once
  double frozen_active_parameters() const;  ///< of the active ones, those that are not trained
  double active_parameters() const;         ///< elements that a token meets on average: `ParameterTensor::active_share`
  std::int64_t tokens() const { return samples * tokens_per_sample; }
  Flops forward_flops() const;   ///< of one micro-batch, as executed
  Flops backward_flops() const;  ///< of one micro-batch, as executed, without recomputation
  Bytes activations() const;     ///< kept by all layers for one micro-batch
  /// Model FLOPs a token for MFU: 6 · active parameters (2 forward, 4 backward; Kaplan et al. 2020, §2.1). Active are
  /// all parameters, embeddings too, but of routed experts only the share that one token is sent to, and of an
  /// encoder-decoder each half for its own tokens; of frozen parameters 4, since nobody makes their gradients. Attention
  /// scores do not count. Where weights are reused: three times the forward FLOPs of a sample.
  Flops model_flops_per_token() const;
  /// What PaLM's MFU (Chowdhery et al. 2022, app. B) adds: 12 · L · h · s for L layers of width h, of s tokens.
  Flops attention_flops_per_token() const;
};

/// C(m×n) = A(m×k) · B(k×n), `batch` times: 2·m·n·k FLOPs, (mk + kn + mn) elements moved. in_turn: see `GemmShape`.
KernelCall gemm(std::string name, double m, double n, double k, Precision, double batch = 1, bool in_turn = false);
/// A kernel that only moves `bytes` (reads and writes together).
KernelCall elementwise(std::string name, Bytes, Precision);
KernelCall kernel_call(std::string name, Kernel, Flops, Bytes, Precision);

/// Throws UserError unless weights, activations and matrix products are all in this one precision (fp64, fp32, tf32,
/// fp16, bf16): fp8 and int8 keep their weights in another one and add casts, which is not modelled.
void require_training_precision(Precision);

enum class Norm : std::uint8_t { layer_norm, rms_norm };

}  // namespace trainyard
