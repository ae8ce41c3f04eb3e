#pragma once
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// Devices and cables of something that is to be built, counted before.
struct BuildSize {
  double devices = 0, cables = 0;
};

/// Throws UserError at `place` where they are more than memory has room for: a graph takes about 1 kB a device.
void require_buildable(const BuildSize&, const std::string& what, const Place& place);

}  // namespace trainyard
