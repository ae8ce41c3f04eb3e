#pragma once
#include <string>

namespace trainyard {

/// `validate kernels`: matrix products and attention of the GPUs that were measured, predicted and measured. Returns an
/// exit code.
int validate_kernels(const std::string& json_file, bool points);

}  // namespace trainyard
