#pragma once
#include <memory>

#include "models/generation/decode_costs.hpp"
#include "scenarios/src/reading/read_post_training.hpp"

namespace trainyard {

/// The prices of the engines.
struct EngineCosts {
  std::shared_ptr<const GenerationCosts> prices;
  Bytes weights;  ///< bytes of the weights on one GPU, with those of a draft
  Bytes policy;   ///< bytes of all parameters of the policy in bf16
  Bytes sent;     ///< bytes that the transfer of weights sends: those, or as many as in the format of the engines
};
/// Returns the bytes of the policy in the engines' number format, divided by its number of parameters.
Bytes stored_parameter(const PostTrainingChoice&, const NetworkEntry&);
/// Throws UserError for a model that does not fit on the engines with the longest answer.
EngineCosts generation_costs(const PostTrainingChoice&, const NetworkEntry&);

}  // namespace trainyard
