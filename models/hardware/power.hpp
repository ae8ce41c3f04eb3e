#pragma once
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// Power that a device draws when idle and when fully busy.
struct PowerDraw {
  Watts idle, busy;  ///< busy 0: not stated

  bool is_given() const { return busy.value > 0; }
  /// Power at a utilization (share of the time in which the device is busy): linear in it (Fan, Weber & Barroso 2007,
  /// Power Provisioning for a Warehouse-sized Computer, section 4.1), and at most `busy`.
  Watts power(double utilization) const;
};

/// Reads `power: {idle, busy}`. Without `idle` the device draws the busy power also when idle. Throws UserError with
/// the place if idle is above busy.
PowerDraw read_power(const Node&, const std::string& what);
/// Reads the field `power` of an entry. Returns a draw that is not stated if the field is absent or null.
PowerDraw read_power(Fields& entry, const std::string& what);

}  // namespace trainyard
