#pragma once
#include <string>

namespace trainyard {

/// `validate training`: the scenarios with a measured step, predicted and measured, with errors and limits by family.
/// Returns an exit code.
int validate_training(const std::string& json_file, bool points);

}  // namespace trainyard
