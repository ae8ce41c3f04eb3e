#pragma once
#include <map>
#include <string>

namespace trainyard {

/// Returns the description of each key of a stack by its path in the entry ("host.cuda_graphs"). A key that is not true
/// or false has an example.
const std::map<std::string, std::string>& stack_words();

}  // namespace trainyard
