#include "scenarios/src/lessons/data_size.hpp"

#include <fmt/format.h>

#include <utility>

#include "sim/units.hpp"

namespace trainyard {

bool asks_decimal(const std::string& size) {
  const std::size_t unit = size.find_first_of("kKMGTP");
  return unit != std::string::npos && unit + 1 < size.size() && size[unit + 1] != 'i';
}

std::string decimal_size(double bytes) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
  for (const auto& [size, name] : kUnits)
    if (bytes >= size) return fmt::format("{:.4g} {}", bytes / size, name);
  return fmt::format("{:.4g} B", bytes);
}

std::string size_text(double bytes, bool decimal) { return decimal ? decimal_size(bytes) : show(Bytes{bytes}); }

}  // namespace trainyard
