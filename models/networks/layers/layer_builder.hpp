#pragma once
#include <string>
#include <vector>

#include "models/networks/layers/fp8_products.hpp"
#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"

namespace trainyard {

constexpr Bytes kIndexSize{8};  ///< torch.long: token ids, class targets, numbers of experts

/// An autograd operator in a layer. It saves tensors in the forward pass and frees them after its backward pass.
struct Operator {
  std::vector<KernelCall> forward;
  std::vector<BackwardKernel> backward;  ///< in execution order
  std::vector<KeptTensor> saved_tensors;
  Bytes forward_live;   ///< memory besides all kept tensors: inputs not kept, intermediates, outputs
  Bytes backward_live;  ///< memory besides kept and held tensors: gradients in and out, intermediates
  /// `kernels_before` and `needed_by` count the operator's own kernels.
  std::vector<Exchange> forward_exchanges, backward_exchanges;
  /// The backward exchange starts before the following operator's kernels of weight gradients, because its gradient is
  /// ready then. With Sharding::overlap it overlaps with those kernels.
  bool beside_weights = false;
  Bytes early_live;                              ///< memory of the result of that early exchange
  Bytes for_weights;                             ///< memory that the kernels `for_weights` read
  RecomputedPart region = RecomputedPart::none;  ///< see `LayerBuilder::set_region`
  bool core = false;                             ///< selective recomputation runs its forward kernels again
  bool keeps_input = false;                      ///< its saved tensors exist before its kernels run
  RecomputedPart module = RecomputedPart::none;  ///< part of the block to which it belongs
  Bytes residual;  ///< memory of open forks without the layer's input; it exists without autograd too
};

/// Builds a layer from operators in forward order. The backward pass runs the operators in reverse.
class LayerBuilder {
 public:
  /// `rows`: number of rows of every activation matrix, samples × tokens.
  LayerBuilder(std::string name, double rows, Precision);

  double rows() const { return rows_; }
  void set_rows(double rows) { rows_ = rows; }  ///< for the operators that follow
  /// `ParameterTensor::active_share` of the tensors that follow. An expert's linear layers multiply it by their own.
  void set_active_share(double share) { active_share_ = share; }
  void set_module(RecomputedPart module) { module_ = module; }  ///< for the operators that follow
  /// The operators that follow belong to a layer of experts, from its router to the sum of its outputs (moe), to a dense
  /// feed-forward part (mlp), or to neither (none).
  void set_region(RecomputedPart region) { region_ = region; }
  /// Sets the parts of a block to recompute. They have no effect if whole layers are recomputed.
  void set_recomputed_parts(std::array<bool, kRecomputedParts> parts) { recomputed_parts_ = parts; }
  void set_partial(bool partial) { partial_ = partial; }  ///< `ParameterTensor::partial` of the tensors that follow
  void set_overlap(bool overlap) { overlap_ = overlap; }  ///< see `Operator::beside_weights`
  /// Kernels of weight gradients of linear layers add them to sums with elements of this size (Megatron-LM's
  /// gradient_accumulation_fusion). They read and write the sums instead of writing a gradient in the precision of the
  /// network. 0: they do not.
  void set_accumulated(Bytes element) { accumulated_ = element; }
  void set_fp8(Fp8Products fp8) { fp8_ = fp8; }  ///< for the linear layers that follow
  /// The forward pass of the layer needs this number of launches; fewer than it has kernels: one for each kernel.
  void set_launches(double launches) { launches_ = launches; }
  void set_linear_launches(double launches) { linear_launches_ = launches; }  ///< see `Fusions::fp8_linear_launches`
  void set_experts_in_turn(bool in_turn) { experts_in_turn_ = in_turn; }      ///< see `Fusions::experts_in_turn`
  void set_adapters(const Adapters& adapters) { adapters_ = adapters; }
  void set_fused_operations(bool fused) { fuses_operations_ = fused; }  ///< see `Fusions::fused_operations`
  /// See `Fusions::autocast`. Nothing changes if the layer's precision is not of 16 bits.
  void set_autocast(bool autocast) { autocast_ = autocast && element_size(precision_) < element_size(Precision::fp32); }
  void set_early_stop(bool early) { early_stop_ = early; }  ///< see `Fusions::early_stop`
  /// An earlier layer of the network lists the weights of the linear layers (without biases) and of the RMSNorms that
  /// follow. -1: this layer lists them.
  void set_shared(int layer) {
    shared_ = layer >= 0;
    if (shared_) layer_.shared_layer = layer;
  }
  void set_fused_norms(bool fused) { fused_norms_ = fused; }  ///< one kernel for both gradients of a norm

  int parameter(std::string name, double elements, double rows = 0);  ///< index of the new tensor
  void add(Operator);
  std::size_t operators() const { return operators_.size(); }
  /// Scales the bytes moved by the kernels of the operators from `first` on, so that their sum is `bytes`.
  void set_traffic(std::size_t first, Bytes bytes);

  struct Linear {
    std::string name;
    double in = 0, out = 0;
    LinearPart part = LinearPart::other;
    bool bias = false;
    bool keeps_input = true;     ///< false: an earlier operator keeps the same tensor
    bool input_gradient = true;  ///< false: not needed (the first layer of a network)
    /// true: the gradient of the output is the same tensor that `fork` holds (y = x + linear(...) without dropout).
    bool shares_fork_gradient = false;
    /// Number of weights of `in` × `out`. The rows are distributed evenly over them. One grouped GEMM reads each weight
    /// that gets a row.
    double experts = 1;
    double active_share = 1;  ///< active share of the weights, multiplied by the builder's
    bool routed = false;      ///< `ParameterTensor::expert`
    /// An earlier operator, which is no linear layer, keeps the input; wgrad of this layer needs it too.
    bool holds_input = false;
    /// Number of ranks of the tensor axis that each keep a share of the input's rows, and gather them for wgrad.
    double input_shares = 1;
    std::string regather = {};    ///< name of that exchange; "": a later linear layer gathers the same input
    bool regather_buffer = true;  ///< true: its buffer is allocated for each pass; false: it stays
    /// Cast of the input to fp8. here: this layer casts it; before: it was cast along the dimension that the output
    /// sums over, and is transposed for wgrad; done: another layer with the same input does both.
    enum class Cast : std::uint8_t { here, before, done } cast = Cast::here;
    bool gradient_cast_before = false;  ///< the gradient of the output is cast as by `before`
    bool casts_residual = false;        ///< the input is of the residual stream's precision: see `residual_bytes`
  };
  /// y = x·W + b: one GEMM (bias in its epilogue). Backward there are dgrad and wgrad GEMMs, and a column sum for the
  /// bias.
  void linear(const Linear&);
  /// y = x·W + b with W, `in` × `out`, owned by an earlier layer: the wgrad GEMM here does not complete its gradient.
  void tied_linear(const Linear&);
  /// Casts rows of `width` to fp8 for products that follow, forward or backward. `both`: along both dimensions.
  /// `agree`: name of the exchange in which tensor ranks find the maximum if the scaling needs it.
  void cast(const std::string& name, double width, bool both, const std::string& agree, bool backward);
  /// y = x + b after the sum over ranks. `fused`: a later kernel adds the bias.
  void bias(const std::string& name, double width, bool fused);
  struct Dropout {
    std::string name;
    double width = 0;
    bool input_kept = false;  ///< the operator before keeps its output, which is the input of the dropout
    bool shares_fork_gradient = false;
    bool fused = false;  ///< the kernel of the next `join` does it
    bool core = false;   ///< part of the core of attention
  };
  /// Zeroes elements at random; keeps a mask of one byte an element (torch.native_dropout).
  void dropout(const Dropout&);
  /// The input is used twice. Backward adds the two gradients (of `width` a row), and holds one of them until then.
  void fork(std::string name, double width);
  /// Ends the innermost fork: adds the two branches. `mask`: bytes that a fused dropout writes in addition.
  void join(std::string name, Bytes mask = {});
  /// Until `release`, operators count this memory besides the tensors that they keep: `tensors` of other branches in the
  /// forward pass, `gradients` of later operators or layers in the backward pass.
  void hold(Bytes gradients, Bytes tensors = {});
  void release();  ///< ends the innermost hold

  void add_attention(Flops forward) { layer_.attention += forward; }  ///< see `Layer::attention`
  void add_lasting(Bytes bytes) { layer_.lasting += bytes; }          ///< see `Layer::lasting`
  /// Ranks exchange the tensor between two operators: forward `in` bytes become `out`, backward `out` become `in`. An
  /// empty name means that there is no exchange.
  struct Crossing {
    Exchange forward = {}, backward = {};
    Bytes in = {}, out = {};
    bool beside_weights = false;  ///< see `Operator::beside_weights`
  };
  void cross(Crossing);
  /// The forward exchanges of operator `before`, and the backward exchanges of the newest operator, overlap with the
  /// kernels of the operators between the two.
  void overlap_since(std::size_t before);

  /// A kernel bound by memory that reads `in` and writes `out` bytes. Its gradient kernel does the reverse.
  void mover(std::string name, Bytes in, Bytes out, bool core = false);
  /// `uses` later operators read the input. Backward adds their gradients.
  void shared_input(std::string name, double width, int uses);
  /// LayerNorm (weight, bias) or RMSNorm (weight) of rows of `width`. Keeps the input and fp32 statistics of each row.
  /// `casts`: it writes fp8.
  void norm(Norm, const std::string& name, double width, bool casts = false);

  struct Embedding {
    std::string name;
    double entries = 0, width = 0;
    double lookups = 0;  ///< number of rows looked up
    /// true: a later layer uses the same weight (`tied_linear`). Its gradient is held until this one is ready, then
    /// added.
    bool tied = false;
    bool owned = true;  ///< false: an earlier layer owns the weight, so its gradient is not complete here
  };
  /// torch.nn.Embedding. Backward clears a gradient of the whole table, then adds each row to it.
  void embedding(const Embedding&);
  /// Tables of which every rank of an axis has an equal part. For each row it looks up rows of the tables and sums them
  /// into one vector for each table.
  struct Tables {
    std::string name;
    double entries = 0, width = 0;  ///< rows of all tables together, and elements in a row
    double vectors = 1;             ///< number of sums for each row: the tables
    double lookups = 1;             ///< number of rows of the tables that are summed for each row
    Bytes element;                  ///< size of an element of the tables
    double ranks = 1;               ///< number of ranks that share the tables
    double load = 1;                ///< lookups of this rank relative to the mean of the ranks
  };
  /// One kernel looks up and sums. Backward one kernel updates the rows that were looked up, by row-wise Adagrad with
  /// one fp32 state for each row (FBGEMM's fused optimizers): there is no gradient of a whole table.
  void tables(const Tables&);
  /// Cross-entropy over `classes` logits a row. fused: one kernel writes the gradient in their place; otherwise it is
  /// computed at least in fp32 (16-bit logits are copied), and log-probabilities are kept. Autocast computes them in
  /// 16 bits, and keeps a copy in fp32 too.
  void cross_entropy(double classes, bool fused);
  /// Adds the cross-entropy whose ranks each have `classes` of each row's logits (Shoeybi et al. 2019, §3). Ranks of
  /// the tensor axis agree on each row's maximum (4 bytes, `prefix`.maximum), and sum the exponentials and the target's
  /// logit (8 bytes, `prefix`.sums). Not fused: it works in place on a copy in fp32 and keeps the probabilities.
  void sharded_cross_entropy(const std::string& prefix, double classes, bool fused);

  /// `input`: bytes of the layer's input. Under full recomputation the layer keeps nothing else.
  Layer build(Bytes output, Recompute = Recompute::none, Bytes input = {}) &&;

  Bytes row_bytes(double width) const;  ///< bytes of rows × width elements
  bool autocasts() const { return autocast_; }
  /// Returns the kernel that casts elements between fp32 and the layer's precision.
  /// widens: to fp32, by a kernel that does not load whole vectors.
  KernelCall autocast_kernel(const std::string& name, double elements, bool widens = false) const;
  /// Under autocast: adds the kernel that casts `elements` weights, and keeps the copy for the backward pass.
  void cast_weights(Operator&, const std::string& name, double elements) const;
  /// Under autocast: adds the kernel that casts the gradient of the operator's last backward kernel to fp32. The
  /// gradient is ready after it. `name`: of the parameter.
  void cast_gradient(Operator&, const std::string& name, double elements) const;
  /// Size of an element of the residual stream and of the outputs of norms, which autocast keeps in fp32.
  Bytes residual_element() const { return element_size(autocast_ ? Precision::fp32 : precision_); }
  Bytes residual_bytes(double width) const { return residual_element() * (rows_ * width); }

 private:
  void linear(const Linear&, int weight, int bias);
  bool adapts(LinearPart part) const {
    return adapters_.has_rank() && adapters_.has_adapter[static_cast<std::size_t>(part)];
  }
  /// Returns true if the matrix is stored in fewer bits, as matrices of blocks are, except those of routers and of the
  /// output projection.
  bool stores_narrow(const Linear& l) const {
    return adapters_.base != Adapters::Base::as_trained && (l.part != LinearPart::other || l.routed);
  }
  void add_adapter(Operator&, const Linear&);
  void autocast_cross_entropy(double classes);
  /// Returns the kernels that cast rows of `width` to fp8.
  std::vector<KernelCall> casts(const std::string& name, double width, bool both) const;
  bool casts_gathered(const Linear&) const;
  void cast_operands(Operator&, const Linear&) const;
  void transpose_operands(Operator&, const Linear&) const;
  void exchange_gradients();
  void share_out_launches();
  void recompute_core();
  void recompute_region(RecomputedPart);
  void recompute_part(RecomputedPart);
  void lay_out();
  void recompute_all(Bytes input, bool by_operator);
  std::size_t kernels_for_kept() const;

  Layer layer_;
  double rows_;
  double active_share_ = 1, launches_ = 0, linear_launches_ = 0;
  bool partial_ = false, overlap_ = false, fused_norms_ = false, early_stop_ = false, experts_in_turn_ = false,
       autocast_ = false, shared_ = false;
  Fp8Products fp8_;
  Bytes accumulated_;
  Precision precision_;
  Adapters adapters_;
  bool fuses_operations_ = false;
  RecomputedPart module_ = RecomputedPart::none, region_ = RecomputedPart::none;
  std::array<bool, kRecomputedParts> recomputed_parts_{};
  std::vector<Operator> operators_;
  struct HeldMemory {
    Bytes gradients, tensors, residual;
  };
  std::vector<HeldMemory> held_;  ///< memory that calls of `hold` and open forks hold
};

}  // namespace trainyard
