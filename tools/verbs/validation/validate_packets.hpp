#pragma once
#include <string>

namespace trainyard {

/// `validate packets`: the default transport beside TCP packet by packet, case by case. Nothing is measured here: it
/// shows what sharing links max–min fair leaves out. Returns an exit code.
int validate_packets(const std::string& json_file);

}  // namespace trainyard
