#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// "step       ": where a line of the one-screen answer begins.
std::string report_label(const char* name);
/// Words joined by `separator`, in lines of the screen's width that continue under the label.
std::string wrapped(const std::string& first, const std::vector<std::string>& words, const std::string& separator);

}  // namespace trainyard
