#include "models/software/nccl_version.hpp"

#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "models/reading/document.hpp"
#include "sim/error.hpp"

namespace trainyard {

/// 2.6 brought network collectives, as chains; 2.9 put direct exchanges in their place, and 2.14 brought chains back.
bool NcclVersion::collnet_chain() const {
  return (*this >= NcclVersion{2, 6} && *this < NcclVersion{2, 9}) || *this >= NcclVersion{2, 14};
}

std::string NcclVersion::text() const { return fmt::format("{}.{}", major, minor); }

NcclVersion parse_nccl_version(const std::string& text) {
  const auto refuse = [&text] {
    throw UserError(fmt::format("\"{}\" is no version of NCCL; expected one such as 2.18 or 2.18.3", text));
  };
  constexpr int most_digits = 3;
  NcclVersion version;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](int& into) {
    const auto [after, error] = std::from_chars(at, end, into);
    if (error != std::errc() || after == at || *at == '-' || after - at > most_digits) refuse();
    at = after;
  };
  number(version.major);
  if (at == end || *at != '.') refuse();
  ++at;
  number(version.minor);
  if (std::string(at, end).find_first_not_of("0123456789.-") != std::string::npos) refuse();
  if (at != end && *at != '.' && *at != '-') refuse();
  if (version.major != 2) refuse();
  return version;
}

NcclLaunch parse_nccl_launch(const std::string& text) {
  static const std::vector<std::pair<std::string, NcclLaunch>> all{
      {"process", NcclLaunch::by_process}, {"thread", NcclLaunch::by_thread}, {"graph", NcclLaunch::ahead}};
  std::vector<std::string> names;
  for (const auto& [name, launch] : all) {
    if (name == text) return launch;
    names.push_back(name);
  }
  throw UserError(fmt::format("unknown way to launch \"{}\"{}", text, hint(text, names)));
}

}  // namespace trainyard
