#pragma once

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

/// Reads the field `power: {idle, busy}` of an entry. Without `idle` the device draws the busy power also when idle.
/// Returns a draw that is not stated if the field is absent or null. Throws UserError with the place if idle is not
/// below busy.
PowerDraw read_power(Fields& entry, const char* busy = "Power under full load.",
                     const char* idle = "Power without load.");

}  // namespace trainyard
