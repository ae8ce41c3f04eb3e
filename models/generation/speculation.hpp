#pragma once
#include "models/generation/decode_costs.hpp"

namespace trainyard {

/// Speculative decoding: a draft proposes tokens, and the model verifies them in one pass.
struct Speculation {
  int tokens = 0;         ///< tokens that are drafted for a pass
  double acceptance = 0;  ///< probability that the model accepts a drafted token
  Bytes draft_weights;    ///< bytes of the draft's weights on one GPU

  /// Returns the mean number of tokens of a pass of the model: (1 − a^(k+1)) / (1 − a) for k drafted tokens that are
  /// accepted with probability a (Leviathan, Kalman & Matias 2023, equation 1).
  double tokens_of_pass() const;
};

/// Prices of an engine with speculative decoding. A pass of the model verifies the drafted tokens and one more; the draft
/// takes a decode step for each drafted token, without host time of its own. The prices are those of one token: of the
/// mean pass divided by its tokens. The draft has keys and values of its own. The model keeps a
/// state for each drafted token and one more (vLLM's MambaSpec), as it may accept only some of them.
class SpeculativeCosts : public GenerationCosts {
 public:
  SpeculativeCosts(DecodeCosts model, DecodeCosts draft, const Speculation&);

  DecodeTime decode(int batch, double context) const override;
  Seconds prefill(const PromptTokens&) const override;
  Bytes cache(double tokens) const override;
  Bytes states() const override;
  Bytes room() const override;

 private:
  DecodeCosts model_, draft_;
  Speculation speculation_;
};

/// Returns the network of a draft that is one further layer of the model, with embedding and head.
NetworkEntry one_layer_draft(const NetworkEntry& model);

}  // namespace trainyard
