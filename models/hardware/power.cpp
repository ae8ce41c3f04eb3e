#include "models/hardware/power.hpp"

#include <algorithm>

namespace trainyard {

Watts PowerDraw::power(double utilization) const { return idle + (busy - idle) * std::clamp(utilization, 0.0, 1.0); }

PowerDraw read_power(const Node& node, const std::string& what) {
  Fields fields(node, what);
  PowerDraw power;
  power.busy = fields.power("busy", Watts{0});
  power.idle = fields.power("idle", power.busy);
  if (power.is_given() && fields.has("idle") && power.idle >= power.busy) fields.refuse("idle", "not below busy");
  fields.finish();
  return power;
}

PowerDraw read_power(Fields& entry, const std::string& what) {
  return entry.has("power") ? read_power(*entry.child("power"), what + ": power") : PowerDraw{};
}

}  // namespace trainyard
