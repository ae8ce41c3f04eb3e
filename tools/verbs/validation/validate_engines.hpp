#pragma once
#include <string>

namespace trainyard {

/// `validate engines`: every shipped scenario that both can run, by the default transport and by SimGrid's own
/// communications. Returns an exit code: kFailsLimit where two step times differ by more than 1e-9.
int validate_engines(const std::string& json_file);

}  // namespace trainyard
