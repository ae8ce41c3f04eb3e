#pragma once
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// What a device draws: with nothing to do, and with all that it can do.
struct PowerDraw {
  Watts idle, busy;  ///< busy 0: not stated

  bool given() const { return busy.value > 0; }
  /// Linear in the share of the time that it is busy (Fan, Weber & Barroso 2007, Power Provisioning for a
  /// Warehouse-sized Computer, section 4.1), and at most `busy`.
  Watts at(double utilization) const;
};

/// `power: {idle, busy}`; what says no idle power draws the same with and without work. Throws UserError with the place
/// where idle is above busy.
PowerDraw read_power(const Node&, const std::string& what);
/// That of the field `power` of an entry; none where it is absent or null.
PowerDraw read_power(Fields& entry, const std::string& what);

}  // namespace trainyard
