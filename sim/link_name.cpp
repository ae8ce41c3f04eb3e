#include "sim/link_name.hpp"

#include <mutex>
#include <set>

namespace trainyard {

Label::Label(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> texts;  // a set: its elements stay where they are
  const std::lock_guard lock(mutex);
  const auto found = texts.find(text);
  text_ = &*(found != texts.end() ? found : texts.emplace(text).first);
}

}  // namespace trainyard
