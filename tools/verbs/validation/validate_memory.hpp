#pragma once
#include "tools/verbs/validation/validation_outputs.hpp"

namespace trainyard {

/// `trainyard validate memory`: peak and reserved memory of measured training runs against the simulator, by family.
int validate_memory(const ValidationOutputs&);

}  // namespace trainyard
