#include "sim/simgrid/ns3_settings.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <memory>

namespace trainyard {

bool set_ns3_default(const std::string& attribute, const std::string& value) {
  // ns3::StringValue::StringValue(const std::string&), bool ns3::Config::SetDefaultFailSafe(std::string, const
  // ns3::AttributeValue&).
  using MakeValue = void (*)(void*, const std::string&);
  using SetDefault = bool (*)(std::string, const void*);
  const auto make = reinterpret_cast<MakeValue>(
      ::dlsym(RTLD_DEFAULT, "_ZN3ns311StringValueC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"));
  const auto set = reinterpret_cast<SetDefault>(::dlsym(
      RTLD_DEFAULT,
      "_ZN3ns36Config18SetDefaultFailSafeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_14AttributeValueE"));
  if (!make || !set) return false;
  // A StringValue is two pointers and a string; it stays, as the settings do.
  constexpr std::size_t kRoom = 4 * sizeof(std::string);
  static_assert(kRoom >= 2 * sizeof(void*) + sizeof(std::string));
  auto* room = new std::max_align_t[kRoom / sizeof(std::max_align_t)];
  make(room, value);
  return set(attribute, room);
}

}  // namespace trainyard
