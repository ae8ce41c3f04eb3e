#pragma once
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// Number of devices and cables of something to be built, counted in advance.
struct BuildSize {
  double devices = 0, cables = 0;
};

/// Throws UserError at `place` if that is more than memory has room for: a graph takes about 1 kB for each device.
void require_buildable(const BuildSize&, const std::string& what, const Place& place);

}  // namespace trainyard
