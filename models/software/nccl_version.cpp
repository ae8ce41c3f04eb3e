#include "models/software/nccl_version.hpp"

#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "models/reading/document.hpp"
#include "sim/error.hpp"

namespace trainyard {

/// 2.6 introduced sums in the network, with chains; 2.9 replaced chains by direct exchanges; 2.14 has both.
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
  const char* position = text.data();
  const char* const end = position + text.size();
  const auto read_number = [&](int& number) {
    const auto [after, error] = std::from_chars(position, end, number);
    if (error != std::errc() || after == position || *position == '-' || after - position > most_digits) refuse();
    position = after;
  };
  read_number(version.major);
  if (position == end || *position != '.') refuse();
  ++position;
  read_number(version.minor);
  if (std::string(position, end).find_first_not_of("0123456789.-") != std::string::npos) refuse();
  if (position != end && *position != '.' && *position != '-') refuse();
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
