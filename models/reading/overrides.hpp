#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Overrides (path, value) of `--set`, in order.
using Overrides = std::vector<std::pair<std::string, std::string>>;

/// Splits "path=value". Throws UserError.
std::pair<std::string, std::string> parse_override_option(const std::string&, const std::string& flag = "--set");
Overrides parse_overrides(const std::vector<std::string>& options);

/// Reads a document with overrides by `read`. Throws UserError as `read` does. If one override alone causes the error,
/// the error names that override instead of a place in the file: "--set PATH: …".
void read_overridden(const Node& document, const Overrides&, const std::function<void(const Node&)>& read);

}  // namespace trainyard
