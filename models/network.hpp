#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/exchange.hpp"
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
  bool expert = false;   ///< of routed experts: spread over the expert axis, so that fewer ranks have the same
  bool partial = false;  ///< each rank of the tensor axis makes a part of its gradient, which is their sum
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
  std::vector<Exchange> forward_exchanges, backward_exchanges;  ///< by `after`; none where one device has the layer
  /// Where the backward pass begins with the forward pass once more: so many of its first exchanges are that one's.
  int recomputed_exchanges = 0;
  bool recomputes_all = false;  ///< the backward pass begins with all of the forward pass
  std::vector<KeptTensor> kept;  ///< each tensor once, with the first operator that saves it
  /// Of `kept`, and of gradients that come in: what the kernels `for_weights` read, where these are put off.
  Bytes kept_for_weights;
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
  std::int64_t tokens_per_sample = 1;  ///< sequence length (of both halves together); 1 where a sample is one example
  bool weights_reused = false;         ///< at many places of one sample, as by convolutions

  double parameters() const;         ///< elements, each tied tensor once
  double active_parameters() const;  ///< elements that a token meets on average: `ParameterTensor::active_share`
  std::int64_t tokens() const { return samples * tokens_per_sample; }
  Flops forward_flops() const;   ///< of one micro-batch, as executed
  Flops backward_flops() const;  ///< of one micro-batch, as executed, without recomputation
  Bytes activations() const;     ///< kept by all layers for one micro-batch
  /// Model FLOPs a token for MFU: 6 · active parameters (2 forward, 4 backward; Kaplan et al. 2020, §2.1). Active are
  /// all parameters, embeddings too, but of routed experts only the share that one token is sent to, and of an
  /// encoder-decoder each half for its own tokens. Attention scores do not count; PaLM's MFU (Chowdhery et al. 2022,
  /// app. B) adds 12 · L · h · s. Where weights are reused: three times the forward FLOPs of a sample.
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
  Bytes backward_live;  ///< besides every kept tensor and what the builder holds: gradients in and out, intermediates
};

/// Lays a layer out operator by operator in forward order; the backward pass runs the operators in reverse.
class LayerBuilder {
 public:
  /// `rows`: rows of every activation matrix, samples × tokens.
  LayerBuilder(std::string name, double rows, Precision);

  double rows() const { return rows_; }
  void set_rows(double rows) { rows_ = rows; }  ///< of the activation matrices of what follows
  /// `ParameterTensor::active_share` of the tensors that follow (an expert's linear layers have their own besides).
  void set_active_share(double share) { active_share_ = share; }

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
    /// So many weights of `in` × `out`, to which the rows are sent in even parts: one grouped GEMM, which reads each
    /// weight that gets a row.
    double experts = 1;
    double active_share = 1;  ///< of the weights, times the builder's
  };
  /// y = x·W + b: one GEMM (bias in its epilogue); backward dgrad and wgrad GEMMs, and a column sum for the bias.
  void linear(const Linear&);
  /// y = x·W + b with W owned by an earlier layer, `in` × `out`: its wgrad GEMM finishes no gradient here.
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
  /// While what follows runs, until `release`, there are besides kept tensors: backward `gradients` that later operators
  /// or layers left, forward `tensors` of other branches.
  void hold(Bytes gradients, Bytes tensors = {});
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
    bool owned = true;  ///< false: an earlier layer owns the weight, and no gradient is finished here
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
  double active_share_ = 1;
  Precision precision_;
  std::vector<Operator> operators_;
  struct Held {
    Bytes gradients, tensors;
  };
  std::vector<Held> held_;  ///< of `hold`, and the gradients of open forks
};

}  // namespace trainyard
