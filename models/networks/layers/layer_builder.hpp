#pragma once
#include <string>
#include <vector>

#include "models/networks/layers/adapters.hpp"
#include "models/networks/layers/fp8_products.hpp"
#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"

namespace trainyard {

/// Part of a layer, as autograd sees it: it saves tensors in the forward pass and frees them once its backward is done.
struct Operator {
  std::vector<KernelCall> forward;
  std::vector<BackwardKernel> backward;  ///< in execution order
  std::vector<KeptTensor> kept;
  Bytes forward_live;   ///< besides every kept tensor: inputs not kept, intermediates, outputs
  Bytes backward_live;  ///< besides every kept tensor and what the builder holds: gradients in and out, intermediates
  /// `after` and `needed_by` count the operator's own kernels.
  std::vector<Exchange> forward_exchanges, backward_exchanges;
  /// The gradient that it exchanges is there before the operator after it has made gradients of its weights: the
  /// exchange starts before those kernels, and with Sharding::overlap goes on beside them. Its result is `early_live`.
  bool beside_weights = false;
  Bytes early_live;
  Bytes for_weights;             ///< what the kernels `for_weights` read
  bool core = false;             ///< selective recomputation runs its forward kernels again
  bool keeps_input = false;      ///< `kept` is there before its kernels run
  Remade module = Remade::none;  ///< which part of the block it belongs to
  Bytes residual;                ///< of forks that are open, but for the input of the layer: there without autograd too
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
  void set_module(Remade module) { module_ = module; }                     ///< of what follows
  void set_remade(std::array<bool, kRemade> remade) { remade_ = remade; }  ///< but for recomputation of the whole layer
  void set_partial(bool partial) { partial_ = partial; }  ///< `ParameterTensor::partial` of the tensors that follow
  void set_overlap(bool overlap) { overlap_ = overlap; }  ///< see `Operator::beside_weights`
  /// Kernels that make gradients of linear layers' weights add them to gradients with such elements (Megatron-LM's
  /// gradient_accumulation_fusion): these are read and written instead of one in the precision of the network. 0: no.
  void set_accumulated(Bytes element) { accumulated_ = element; }
  void set_fp8(Fp8Products fp8) { fp8_ = fp8; }                           ///< of the linear layers that follow
  void set_experts_in_turn(bool in_turn) { experts_in_turn_ = in_turn; }  ///< see `Fusions::experts_in_turn`
  void set_adapters(const Adapters& adapters) { adapters_ = adapters; }
  void set_early_stop(bool early) { early_stop_ = early; }    ///< see `Fusions::early_stop`
  void set_fused_norms(bool fused) { fused_norms_ = fused; }  ///< one kernel makes both gradients of a norm

  int parameter(std::string name, double elements, double rows = 0);  ///< index of the new tensor
  void add(Operator);
  std::size_t operators() const { return operators_.size(); }
  /// All that the kernels of the operators from the `first` on move is so much.
  void set_traffic(std::size_t first, Bytes);

  struct Linear {
    std::string name;
    double in = 0, out = 0;
    LinearPart part = LinearPart::other;
    bool bias = false;
    bool keeps_input = true;     ///< false: an earlier operator keeps the same tensor
    bool input_gradient = true;  ///< false: nobody needs it (the first layer of a network)
    /// true: the gradient of the output is the very tensor that `fork` holds (y = x + linear(...) without dropout).
    bool shares_fork_gradient = false;
    /// So many weights of `in` × `out`, to which the rows are sent in even parts: one grouped GEMM, which reads each
    /// weight that gets a row.
    double experts = 1;
    double active_share = 1;  ///< of the weights, times the builder's
    bool routed = false;      ///< `ParameterTensor::expert`
    /// An earlier operator keeps the input, but no other linear layer: it is held for the gradient of this weight.
    bool holds_input = false;
    /// So many ranks of the tensor axis keep a share each of the rows of the input, and gather them for wgrad.
    double input_shares = 1;
    std::string regather = {};  ///< the name of that exchange; "": a linear layer after this one gathers the same input
    bool regather_buffer = true;  ///< memory for it comes and goes; false: it is there throughout
    /// Of products in fp8: the input is cast here; or it was before, along the dimension that the output sums over, and
    /// is to be transposed for the gradient of the weight; or nothing is left to do (another layer with this input does).
    enum class Cast : std::uint8_t { here, before, done } cast = Cast::here;
    bool gradient_cast_before = false;  ///< the same of the gradient of the output
  };
  /// y = x·W + b: one GEMM (bias in its epilogue); backward dgrad and wgrad GEMMs, and a column sum for the bias.
  void linear(const Linear&);
  /// y = x·W + b with W owned by an earlier layer, `in` × `out`: its wgrad GEMM finishes no gradient here.
  void tied_linear(const Linear&);
  /// Casts rows of `width` to fp8 for products that follow, forward or backward. `both`: along both dimensions; `agree`:
  /// the name of an exchange among tensor ranks by which they find the maximum, where the scaling needs it.
  void cast(const std::string& name, double width, bool both, const std::string& agree, bool backward);
  /// y = x + b where the bias comes after the sum over ranks; `fused`: a kernel that follows adds it.
  void bias(const std::string& name, double width, bool fused);
  struct Dropout {
    std::string name;
    double width = 0;
    bool input_kept = false;  ///< the operator before keeps its output, which is the input here
    bool shares_fork_gradient = false;
    bool fused = false;  ///< the kernel of the `join` that follows does it
    bool core = false;   ///< of attention
  };
  /// Zeroes elements at random; keeps a mask of one byte an element (torch.native_dropout).
  void dropout(const Dropout&);
  /// The input is used twice: backward adds the two gradients (of `width` a row), of which one is held until then.
  void fork(std::string name, double width);
  /// Ends the innermost fork: adds the two branches; `mask` is what a fused dropout writes besides.
  void join(std::string name, Bytes mask = {});
  /// While what follows runs, until `release`, there are besides kept tensors: backward `gradients` that later operators
  /// or layers left, forward `tensors` of other branches.
  void hold(Bytes gradients, Bytes tensors = {});
  void release();  ///< ends the innermost hold

  void add_attention(Flops forward) { layer_.attention += forward; }  ///< see `Layer::attention`
  void add_lasting(Bytes bytes) { layer_.lasting += bytes; }          ///< see `Layer::lasting`
  /// Ranks exchange what passes here: `in` bytes become `out` forward, the other way backward. An exchange without a
  /// name is not there.
  struct Crossing {
    Exchange forward, backward;
    Bytes in, out;
    bool beside_weights = false;  ///< of the operator that follows
  };
  void cross(Crossing);

  /// A kernel bound by memory that reads `in` and writes `out` bytes; its gradient kernel does the reverse.
  void mover(std::string name, Bytes in, Bytes out, bool core = false);
  /// The input is read by `uses` operators that follow: backward adds their gradients.
  void shared_input(std::string name, double width, int uses);
  /// LayerNorm (weight, bias) or RMSNorm (weight) of rows of `width`; keeps the input and fp32 statistics of each row.
  /// `casts`: it writes fp8.
  void norm(Norm, const std::string& name, double width, bool casts = false);

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
  /// The same where a rank has `classes` of each row's logits (Shoeybi et al. 2019, §3): ranks of the tensor axis agree
  /// on each row's maximum (4 bytes, `prefix`.maximum), and sum the exponentials and the target's logit (8 bytes,
  /// `prefix`.sums). Not fused: in place on a copy in fp32, of which the probabilities are kept.
  void sharded_cross_entropy(const std::string& prefix, double classes, bool fused);

  /// `input`: bytes of what the layer is given, all that it keeps under full recomputation.
  Layer build(Bytes output, Recompute = Recompute::none, Bytes input = {}) &&;

  Bytes row_bytes(double width) const;  ///< rows × width elements

 private:
  void linear(const Linear&, int weight, int bias);
  bool adapts(LinearPart part) const { return adapters_.any() && adapters_.beside[static_cast<std::size_t>(part)]; }
  /// Matrices of blocks: neither the router's nor the output projection's.
  bool stores_narrow(const Linear& l) const {
    return adapters_.base != Adapters::Base::as_trained && (l.part != LinearPart::other || l.routed);
  }
  void add_adapter(Operator&, const Linear&);
  /// The kernels that make fp8 of rows of `width`.
  std::vector<KernelCall> casts(const std::string& name, double width, bool both) const;
  bool casts_gathered(const Linear&) const;
  void cast_operands(Operator&, const Linear&) const;
  void transpose_operands(Operator&, const Linear&) const;
  void exchange_gradients();
  void recompute_core();
  void remake(Remade);
  void lay_out();
  void recompute_all(Bytes input, bool by_operator);
  std::size_t kernels_for_kept() const;

  Layer layer_;
  double rows_;
  double active_share_ = 1;
  bool partial_ = false, overlap_ = false, fused_norms_ = false, early_stop_ = false, experts_in_turn_ = false;
  Fp8Products fp8_;
  Bytes accumulated_;
  Precision precision_;
  Adapters adapters_;
  Remade module_ = Remade::none;
  std::array<bool, kRemade> remade_{};
  std::vector<Operator> operators_;
  struct Held {
    Bytes gradients, tensors, residual;
  };
  std::vector<Held> held_;  ///< of `hold`, and the gradients of open forks
};

/// Of `kept`, the bytes that selective recomputation keeps too.
Bytes kept_without_core(const std::vector<KeptTensor>& kept);

}  // namespace trainyard
