#include "models/networks/layers/exchange.hpp"

#include <array>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {
constexpr std::array<const char*, kAxes> kAxisNames{"tensor",   "context",       "expert",  "data",
                                                    "pipeline", "expert-tensor", "ulysses", "ring"};
}

const char* name_of(Axis axis) { return kAxisNames.at(static_cast<std::size_t>(axis)); }

Axis parse_axis(const std::string& text) {
  return static_cast<Axis>(place_of_word("axis", text, {kAxisNames.begin(), kAxisNames.end()}));
}

}  // namespace trainyard
