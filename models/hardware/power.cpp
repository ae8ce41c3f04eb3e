#include "models/hardware/power.hpp"

#include <algorithm>

namespace trainyard {

Watts PowerDraw::power(double utilization) const { return idle + (busy - idle) * std::clamp(utilization, 0.0, 1.0); }

PowerDraw read_power(Fields& entry, const char* busy, const char* idle) {
  PowerDraw power;
  entry.read_map("power", [&](Fields& fields) {
    power.busy = fields.power({"busy", busy}, Watts{0});
    power.idle = fields.power({"idle", idle}, power.busy);
    if (power.is_given() && fields.has("idle") && power.idle >= power.busy) fields.refuse("idle", "not below busy");
  });
  return power;
}

}  // namespace trainyard
