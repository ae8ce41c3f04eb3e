#include "models/networks/layers/exchange.hpp"

#include <array>
#include <vector>

#include "models/reading/registry.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {
constexpr std::array<const char*, kAxes> kAxisNames{"tensor", "context", "expert", "data", "pipeline", "expert-tensor"};
}

const char* name_of(Axis axis) { return kAxisNames.at(static_cast<std::size_t>(axis)); }

Axis parse_axis(const std::string& text) {
  for (std::size_t i = 0; i < kAxisNames.size(); ++i)
    if (text == kAxisNames[i]) return static_cast<Axis>(i);
  throw UserError("unknown axis \"" + text + "\"" +
                  hint(text, std::vector<std::string>(kAxisNames.begin(), kAxisNames.end())));
}

}  // namespace trainyard
