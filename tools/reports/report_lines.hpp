#pragma once
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"

namespace trainyard {

/// Parts of a step are in one unit, that of the whole: seconds or milliseconds.
bool in_seconds(const Result&);
std::string part_of(const Result&, double seconds);
std::string gib(double bytes);
/// "step       ": where a line of the one-screen answer begins.
std::string report_label(const char* name);
/// Energy of a step, and money where it is priced: a line each; nothing where neither is known.
std::string cost_lines(const Result&);
/// Breaks lines of more than 120 columns at a separator or a space. The rest continues under the label.
std::string broken_lines(const std::string& text);
/// Words joined by `separator`, in lines of the screen's width that continue under the label.
std::string wrapped(const std::string& first, const std::vector<std::string>& words, const std::string& separator);

}  // namespace trainyard
