#include "models/reading/pattern.hpp"

#include <regex>

namespace trainyard {

struct Pattern::Compiled {
  std::regex expression;
};

namespace {

Pattern::Groups groups_of(const std::smatch& match) {
  Pattern::Groups groups;
  for (const auto& group : match) groups.push_back(group.str());
  return groups;
}

}  // namespace

Pattern::Pattern(const char* text) : compiled_(std::make_shared<Compiled>(Compiled{std::regex(text)})) {}

Pattern::Groups Pattern::find(const std::string& text) const {
  std::smatch match;
  return std::regex_search(text, match, compiled_->expression) ? groups_of(match) : Groups{};
}

std::string Pattern::replace(const std::string& text, const std::function<std::string(const Groups&)>& write) const {
  std::string all;
  auto from = text.begin();
  for (std::sregex_iterator match(text.begin(), text.end(), compiled_->expression), end; match != end; ++match) {
    all.append(from, (*match)[0].first);
    all += write(groups_of(*match));
    from = (*match)[0].second;
  }
  return all.append(from, text.end());
}

}  // namespace trainyard
