#pragma once
#include <string>

namespace trainyard {

/// `validate dataparallel`: how well CNNs scale over the GPUs of a machine, predicted and measured, in points of
/// scaling efficiency. Returns an exit code.
int validate_data_parallel(const std::string& json_file, bool points);

}  // namespace trainyard
