#pragma once
#include <string>

#include "tools/verbs/validation/validation_outputs.hpp"

namespace trainyard {

/// `validate collectives`: the NCCL model against the measured rows that were kept out of its fits, and against
/// nccl-tests of other systems, with errors and limits. `svg`: a picture of the latter. Returns an exit code.
int validate_collectives(const ValidationOutputs&, const std::string& svg, const std::string& systems);

}  // namespace trainyard
