#include "sim/link_name.hpp"

#include <map>
#include <mutex>
#include <set>

namespace trainyard {
namespace {

/// A text, which names all links alike.
class TextNamer : public LinkNamer {
 public:
  explicit TextNamer(std::string_view text) : text_(text) {}
  std::string link_name(std::int32_t) const override { return text_; }

 private:
  std::string text_;
};

}  // namespace

LinkName::LinkName(std::string_view text) {
  static std::mutex mutex;
  static std::map<std::string, TextNamer, std::less<>> namers;
  const std::lock_guard lock(mutex);
  namer_ = &namers.try_emplace(std::string(text), text).first->second;
}

Label::Label(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> texts;  // a set: its elements stay where they are
  const std::lock_guard lock(mutex);
  const auto found = texts.find(text);
  text_ = &*(found != texts.end() ? found : texts.emplace(text).first);
}

}  // namespace trainyard
