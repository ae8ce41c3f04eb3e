#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/gpu.hpp"
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
};

/// A learned tensor. Only the layer that owns a tensor lists it: one shared by two layers (a tied embedding) is listed
/// by the first, whose backward kernel comes last and so makes the gradient final.
struct ParameterTensor {
  std::string name;
  double elements = 0;
};

/// A tensor kept from the forward to the backward pass of one micro-batch.
struct KeptTensor {
  std::string name;
  Bytes bytes;
};

/// What runs without interruption, and what a network is split at.
struct Layer {
  std::string name;
  std::vector<ParameterTensor> parameters;
  std::vector<KernelCall> forward;       ///< in execution order
  std::vector<BackwardKernel> backward;  ///< in execution order
  std::vector<KeptTensor> kept;          ///< each tensor once, with the first operator that saves it
  Bytes output;                          ///< what the next layer is given: its gradient, coming back, is as large
  /// The highest memory in the pass above what the layer keeps in all (`activations()`), gradients of parameters left
  /// out: tensors that live only within the layer, and `output`.
  Bytes forward_transient, backward_transient;

  double parameter_elements() const;
  Bytes activations() const;  ///< sum of `kept`
  Flops forward_flops() const;
  Flops backward_flops() const;
};

/// A neural network as work, for one micro-batch on one device.
struct Network {
  std::string name;
  std::string source;         ///< where its dimensions come from, "" where not stated
  std::vector<Layer> layers;  ///< in the order of the forward pass; the last one ends with the loss
  Precision precision = Precision::fp32;
  std::int64_t samples = 1;            ///< in one micro-batch
  std::int64_t tokens_per_sample = 1;  ///< sequence length; 1 where a sample is one example
  bool weights_reused = false;         ///< at many places of one sample, as by convolutions

  double parameters() const;  ///< elements, each tied tensor once
  std::int64_t tokens() const { return samples * tokens_per_sample; }
  Flops forward_flops() const;   ///< of one micro-batch, as executed
  Flops backward_flops() const;  ///< of one micro-batch, as executed, without recomputation
  Bytes activations() const;     ///< kept by all layers for one micro-batch
  /// Model FLOPs a token for MFU: 6 · parameters (2 forward, 4 backward; Kaplan et al. 2020, §2.1). All parameters count,
  /// embeddings too; attention scores do not. PaLM's MFU (Chowdhery et al. 2022, app. B) adds 12 · L · h · s.
  /// Where weights are reused: three times the forward FLOPs of a sample.
  Flops model_flops_per_token() const;
};

/// C(m×n) = A(m×k) · B(k×n), `batch` times: 2·m·n·k FLOPs, (mk + kn + mn) elements moved.
KernelCall gemm(std::string name, double m, double n, double k, Precision, double batch = 1);
/// A kernel that only moves `bytes` (reads and writes together).
KernelCall elementwise(std::string name, Bytes, Precision);
KernelCall kernel_call(std::string name, Kernel, Flops, Bytes, Precision);

/// Throws UserError unless weights, activations and matrix products are all in this one precision (fp64, fp32, tf32,
/// fp16, bf16): fp8 and int8 keep their weights in another one and add casts, which is not modelled.
void require_training_precision(Precision);

enum class Norm : std::uint8_t { layer_norm, rms_norm };

/// Part of a layer, as autograd sees it: it saves tensors in the forward pass and frees them once its backward is done.
struct Operator {
  std::vector<KernelCall> forward;
  std::vector<BackwardKernel> backward;  ///< in execution order
  std::vector<KeptTensor> kept;
  Bytes forward_live;   ///< besides every kept tensor: inputs not kept, intermediates, outputs
  Bytes backward_live;  ///< besides every kept tensor and `LayerBuilder::fork`'s: gradients in and out, intermediates
};

/// Lays a layer out operator by operator in forward order; the backward pass runs the operators in reverse.
class LayerBuilder {
 public:
  /// `rows`: rows of every activation matrix, samples × tokens.
  LayerBuilder(std::string name, double rows, Precision);

  int parameter(std::string name, double elements);  ///< index of the new tensor
  void add(Operator);

  struct Linear {
    std::string name;
    double in = 0, out = 0;
    bool bias = false;
    bool keeps_input = true;     ///< false: an earlier operator keeps the same tensor
    bool input_gradient = true;  ///< false: nobody needs it (the first layer of a network)
    /// true: the gradient of the output is the very tensor that `fork` holds (y = x + linear(...) without dropout).
    bool shares_fork_gradient = false;
  };
  /// y = x·W + b: one GEMM (bias in its epilogue); backward dgrad and wgrad GEMMs, and a column sum for the bias.
  void linear(const Linear&);
  /// y = x·W with W owned by an earlier layer, `in` × `out`: its wgrad GEMM finishes no gradient here.
  void tied_linear(const Linear&);
  struct Dropout {
    std::string name;
    double width = 0;
    bool input_kept = false;  ///< the operator before keeps its output, which is the input here
    bool shares_fork_gradient = false;
  };
  /// Zeroes elements at random; keeps a mask of one byte an element (torch.native_dropout).
  void dropout(const Dropout&);
  /// The input is used twice: backward adds the two gradients (of `width` a row), of which one is held until then.
  void fork(std::string name, double width);
  /// Ends the innermost fork: adds the two branches.
  void join(std::string name);
  /// Tensors of other branches that are there, besides kept ones, while what is added until `release` runs.
  void hold(Bytes forward, Bytes backward);
  void release();  ///< ends the innermost hold

  /// A kernel bound by memory that reads `in` and writes `out` bytes; its gradient kernel does the reverse.
  void mover(std::string name, Bytes in, Bytes out);
  /// The input is read by `uses` operators that follow: backward adds their gradients.
  void shared_input(std::string name, double width, int uses);
  /// LayerNorm (weight, bias) or RMSNorm (weight) of rows of `width`; keeps the input and fp32 statistics of each row.
  void norm(Norm, const std::string& name, double width);

  struct Embedding {
    std::string name;
    double entries = 0, width = 0;
    double lookups = 0;  ///< rows looked up
    /// true: a later layer uses the same weight (`tied_linear`); its gradient is held until this one is there, and added.
    bool tied = false;
  };
  /// torch.nn.Embedding: backward clears a gradient of the whole table, then adds each row into it.
  void embedding(const Embedding&);
  /// Cross-entropy over `classes` logits a row, which the caller keeps. fused: one kernel that leaves the gradient in
  /// their place; otherwise in fp32 at least (16-bit logits are copied), with the log-probabilities kept.
  void cross_entropy(double classes, bool fused);

  Layer build(Bytes output) &&;

  Bytes row_bytes(double width) const;  ///< rows × width elements

 private:
  void linear(const Linear&, int weight, int bias);

  Layer layer_;
  double rows_;
  Precision precision_;
  std::vector<Operator> operators_;
  std::vector<double> forks_;  ///< widths
  struct Held {
    Bytes forward, backward;
  };
  std::vector<Held> held_;
};

}  // namespace trainyard
