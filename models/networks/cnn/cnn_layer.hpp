#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/networks/cnn/cnn.hpp"
#include "models/networks/layers/layer_builder.hpp"

namespace trainyard {

/// What an operator hands to the next one.
struct CnnFeature {
  double width = 0;       ///< elements of one sample
  std::size_t store = 0;  ///< the memory it lies in: a view and what works in place share that of their input
  bool gradient = false;  ///< anything before it has parameters
  bool shared = false;    ///< another branch reads it too: nothing works in place on it
};

/// The kernels of one `CnnLayer`; `models/cnn.hpp` is for everyone else.
class CnnLayerBuilder {
 public:
  /// `kept[store]`: somebody keeps that memory for the backward pass. It outlives the layers.
  CnnLayerBuilder(const std::string& name, double samples, Precision precision, const Fusions& fusions,
                  const Sharding& sharding, std::vector<bool>& kept)
      : b_(name, samples, precision),
        samples_(samples),
        precision_(precision),
        fusions_(fusions),
        sharding_(sharding),
        kept_(kept) {
    b_.set_overlap(sharding.overlap);
  }

  CnnFeature run(const std::vector<CnnOperator>& operators, CnnFeature feature) {
    for (std::size_t i = 0; i < operators.size(); i += together(operators, i)) feature = add(operators, i, feature);
    return feature;
  }
  Layer build(Bytes output, Bytes input) && { return std::move(b_).build(output, sharding_.recompute, input); }
  Bytes bytes(double width) const { return b_.row_bytes(width); }
  Bytes bits(double width) const { return Bytes{samples_ * width / 8}; }  ///< one an element

 private:
  /// Names are "conv1", "conv2", …, each kind counted in its layer.
  std::string name_of(const CnnOperator& op) { return op.word + std::to_string(++used_[op.word]); }
  bool is_kept(const CnnFeature& f) const { return kept_[f.store]; }
  CnnFeature fresh(double width, bool gradient) {
    kept_.push_back(false);
    return {width, kept_.size() - 1, gradient, false};
  }
  /// Once: the first operator that needs it lists it.
  void keep(Operator& op, const CnnFeature& f, std::string name) {
    if (!is_kept(f)) op.kept.push_back({std::move(name), bytes(f.width)});
    kept_[f.store] = true;
  }
  KernelCall moves(std::string name, Bytes moved) const { return elementwise(std::move(name), moved, precision_); }

  /// Where a fused batch norm is applied to what it is given.
  enum class NormApplied : std::uint8_t { by_itself, by_convolution, by_sum };
  bool fuses_norms() const { return fusions_.batch_norm != BatchNormFusion::none; }
  /// So many operators from `i` on are one kernel's.
  std::size_t together(const std::vector<CnnOperator>&, std::size_t i) const;
  /// Operator `i`, with those that its kernel does too. `summed`: what the list gives goes into a residual's sum.
  CnnFeature add(const std::vector<CnnOperator>&, std::size_t i, CnnFeature, bool summed = false);
  CnnFeature fused_batch_norm(const CnnOperator&, CnnFeature, bool activates, NormApplied);
  CnnFeature add(const CnnOperator&, CnnFeature);
  CnnFeature conv(const CnnOperator&, CnnFeature);
  CnnFeature batch_norm(const CnnOperator&, CnnFeature);
  CnnFeature activation(const CnnOperator&, CnnFeature);
  CnnFeature pool(const CnnOperator&, CnnFeature);
  CnnFeature local_response_norm(const CnnOperator&, CnnFeature);
  CnnFeature linear(const CnnOperator&, CnnFeature);
  CnnFeature dropout(const CnnOperator&, CnnFeature);
  CnnFeature residual(const CnnOperator&, CnnFeature, bool activates = false);
  /// What the sum's kernel does backward: its ReLU, and so many batch norms that it applied.
  void sum_backward(Operator&, const std::string& name, Bytes output, Bytes mask, std::size_t norms);
  CnnFeature concat(const CnnOperator&, CnnFeature);
  CnnFeature auxiliary(const CnnOperator&, CnnFeature);

  /// Before and after a product of which a rank has `1 / tensor` of the outputs.
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
  std::vector<int> summed_norms_;  ///< weights of batch norms that wait for the sum that applies them
};

}  // namespace trainyard
