#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/networks/cnn/cnn.hpp"
#include "models/networks/layers/layer_builder.hpp"

namespace trainyard {

/// The tensor between two operators.
struct CnnFeature {
  double width = 0;       ///< number of elements of one sample
  std::size_t store = 0;  ///< number of its memory: a view and an operator in place share that of their input
  bool gradient = false;  ///< an operator before it has parameters, so it needs a gradient
  bool shared = false;    ///< another branch reads it too: no operator works in place on it
};

/// Builds the kernels of one `CnnLayer`. Code outside this folder uses `cnn.hpp`.
class CnnLayerBuilder {
 public:
  /// `kept[store]`: is that memory kept for the backward pass? The vector is shared by all layers.
  CnnLayerBuilder(const std::string& name, double samples, Precision precision, const Fusions& fusions,
                  const Sharding& sharding, std::vector<bool>& kept)
      : b_(name, samples, precision),
        samples_(samples),
        precision_(precision),
        fusions_(fusions),
        sharding_(sharding),
        kept_(kept) {
    b_.set_overlap(sharding.overlap);
    b_.set_autocast(fusions.autocast);
  }

  CnnFeature run(const std::vector<CnnOperator>& operators, CnnFeature feature) {
    for (std::size_t i = 0; i < operators.size(); i += fused_operators(operators, i))
      feature = add(operators, i, feature);
    return feature;
  }
  Layer build(Bytes output, Bytes input) && { return std::move(b_).build(output, sharding_.recompute, input); }
  Bytes bytes(double width) const { return b_.row_bytes(width); }
  Bytes bits(double width) const { return Bytes{samples_ * width / 8}; }  ///< one bit an element

 private:
  /// Returns "conv1", "conv2", …: each word is counted in its layer.
  std::string name_of(const CnnOperator& op) { return op.word + std::to_string(++used_[op.word]); }
  bool is_kept(const CnnFeature& f) const { return kept_[f.store]; }
  CnnFeature fresh(double width, bool gradient) {
    kept_.push_back(false);
    return {width, kept_.size() - 1, gradient, false};
  }
  /// Lists a kept tensor at the first operator that needs it.
  void keep(Operator& op, const CnnFeature& f, std::string name) {
    if (!is_kept(f)) op.saved_tensors.push_back({std::move(name), bytes(f.width)});
    kept_[f.store] = true;
  }
  KernelCall moves(std::string name, Bytes moved) const { return elementwise(std::move(name), moved, precision_); }

  /// The kernel that applies a fused batch norm to its input.
  enum class NormApplied : std::uint8_t { by_itself, by_convolution, by_sum };
  bool fuses_norms() const { return fusions_.batch_norm != BatchNormFusion::none; }
  /// Returns the number of operators from `i` on that one kernel executes.
  std::size_t fused_operators(const std::vector<CnnOperator>&, std::size_t i) const;
  /// Adds operator `i` and those that its kernel executes too. `summed`: a residual sums the output of the list.
  CnnFeature add(const std::vector<CnnOperator>&, std::size_t i, CnnFeature, bool summed = false);
  CnnFeature add(const CnnOperator&, CnnFeature);
  CnnFeature conv(const CnnOperator&, CnnFeature);
  CnnFeature batch_norm(const CnnOperator&, CnnFeature, bool activates, NormApplied);
  CnnFeature activation(const CnnOperator&, CnnFeature);
  CnnFeature pool(const CnnOperator&, CnnFeature);
  CnnFeature local_response_norm(const CnnOperator&, CnnFeature);
  CnnFeature linear(const CnnOperator&, CnnFeature);
  CnnFeature dropout(const CnnOperator&, CnnFeature);
  CnnFeature residual(const CnnOperator&, CnnFeature, bool activates = false);
  /// Adds the backward pass of a residual's sum: its ReLU, and the batch norms that it applied.
  void sum_backward(Operator&, const std::string& name, Bytes output, Bytes mask, std::size_t norms);
  CnnFeature concat(const CnnOperator&, CnnFeature);
  CnnFeature auxiliary(const CnnOperator&, CnnFeature);

  /// Number of ranks of the tensor axis. The next functions add the exchanges before and after a product whose outputs
  /// are spread over these ranks.
  double ranks() const { return sharding_.tensor; }
  void begin_columns(const CnnOperator&, const std::string& name, const CnnFeature& in);
  void gather_columns(const std::string& name, double width);
  void sum_gradients(const std::string& name, const CnnFeature& in, std::size_t uses);
  CnnFeature branch(const std::vector<CnnOperator>&, CnnFeature in, Bytes forward, Bytes backward, Bytes shared,
                    bool summed = false);

  LayerBuilder b_;
  double samples_;
  Precision precision_;
  const Fusions& fusions_;
  const Sharding& sharding_;
  std::vector<bool>& kept_;
  std::map<std::string, int> used_;
  std::vector<int> summed_norms_;  ///< weights of batch norms that the next sum applies
};

}  // namespace trainyard
