#include "models/reading/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace trainyard {
namespace {

/// Returns an error text without the place in a file before it, "jobs.yml:8:22: ".
std::string without_place(const std::string& text) {
  const std::string::const_iterator end = std::ranges::search(text, std::string_view(": ")).begin();
  const auto is_of_place = [](char c) { return c == ':' || (c >= '0' && c <= '9'); };
  const auto first = std::find_if_not(std::reverse_iterator(end), text.rend(), is_of_place).base();
  return end != text.end() && std::count(first, end, ':') == 2 ? std::string(end + 2, text.end()) : text;
}

/// Returns true if an error is in a file that the value names, and states the line there ("prices.yml:8:22: …").
bool is_in_file(const std::string& text, std::string_view value) {
  if (value.size() > 1 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
  return !value.empty() && text.starts_with(value) && text.size() > value.size() + 1 && text[value.size()] == ':' &&
         text[value.size() + 1] >= '0' && text[value.size() + 1] <= '9';
}

}  // namespace

std::pair<std::string, std::string> parse_override_option(const std::string& option, const std::string& flag) {
  const std::size_t found = option.find('=');
  if (found == std::string::npos || found == 0)
    throw UserError(fmt::format("{} {}: expected path=value, such as plan.micro_batch_size=8", flag, option));
  return {option.substr(0, found), option.substr(found + 1)};
}

Overrides parse_overrides(const std::vector<std::string>& options) {
  Overrides overrides;
  for (const std::string& option : options) overrides.push_back(parse_override_option(option));
  return overrides;
}

void read_overridden(const Node& document, const Overrides& overrides, const std::function<void(const Node&)>& read) {
  const auto read_without = [&](std::size_t left_out) {
    Node changed = document;
    for (std::size_t i = 0; i < overrides.size(); ++i)
      if (i != left_out) set_field(changed, overrides[i].first, overrides[i].second);
    read(changed);
  };
  try {
    read_without(overrides.size());
  } catch (const UserError& error) {
    const std::string text = error.what();
    if (text.starts_with("--set ")) throw;
    for (std::size_t i = overrides.size(); i-- > 0;) {
      try {
        read_without(i);
      } catch (const UserError&) {
        continue;
      }
      if (is_in_file(text, overrides[i].second)) throw;
      throw UserError(fmt::format("--set {}: {}", overrides[i].first, without_place(text)));
    }
    throw;
  }
}

}  // namespace trainyard
