#include "models/generation/speculation.hpp"

#include <utility>

namespace trainyard {

double Speculation::tokens_of_pass() const {
  double sum = 1, accepted = 1;
  for (int i = 0; i < tokens; ++i) {
    accepted *= acceptance;
    sum += accepted;
  }
  return sum;
}

SpeculativeCosts::SpeculativeCosts(DecodeCosts model, DecodeCosts draft, const Speculation& speculation)
    : model_(std::move(model)), draft_(std::move(draft)), speculation_(speculation) {}

DecodeTime SpeculativeCosts::decode(int batch, double context) const {
  const DecodeTime verified = model_.verify(batch, speculation_.tokens + 1, context),
                   drafted = draft_.decode(batch, context);
  const double drafts = speculation_.tokens, share = 1 / speculation_.tokens_of_pass();
  return {share * (verified.products + drafts * drafted.products), share * (verified.cache + drafts * drafted.cache),
          share * (verified.exchanges + drafts * drafted.exchanges), share * verified.host};
}

Seconds SpeculativeCosts::prefill(const PromptTokens& tokens) const {
  return model_.prefill(tokens) + draft_.prefill(tokens);
}

Bytes SpeculativeCosts::cache(double tokens) const { return model_.cache(tokens) + draft_.cache(tokens); }

Bytes SpeculativeCosts::states() const { return (1.0 + speculation_.tokens) * model_.states() + draft_.states(); }

Bytes SpeculativeCosts::room() const { return model_.room() - speculation_.draft_weights; }

NetworkEntry one_layer_draft(const NetworkEntry& model) {
  NetworkEntry draft = model;
  if (TransformerConfig* config = std::get_if<TransformerConfig>(&draft.shape)) {
    config->num_hidden_layers = 1;
    config->experts.first_layer = 0;
  }
  return draft;
}

}  // namespace trainyard
