#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// `validate training --left-out`: each family (or `families`) by constants that were fitted to the others. Returns an exit
/// code.
int validate_left_out(const std::string& json_file, bool points, const std::vector<std::string>& families);

}  // namespace trainyard
