#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard {

/// Makes the names of numbered links when they are requested: the names of a million links take more memory than the
/// links.
class LinkNamer {
 public:
  virtual ~LinkNamer() = default;
  virtual std::string link_name(std::int32_t number) const = 0;
};

/// The name of a link: a text, or a number from which a namer makes the text.
class LinkName {
 public:
  LinkName() = default;
  /// Equal texts share one namer of their own, which is never freed.
  LinkName(std::string_view text);
  LinkName(const char* text) : LinkName(std::string_view(text)) {}
  LinkName(const std::string& text) : LinkName(std::string_view(text)) {}
  /// The namer must outlive this object and its copies.
  LinkName(const LinkNamer& namer, std::int32_t number) : namer_(&namer), number_(number) {}

  std::string text() const { return namer_ ? namer_->link_name(number_) : ""; }
  operator std::string() const { return text(); }
  bool operator==(std::string_view other) const { return text() == other; }

 private:
  const LinkNamer* namer_ = nullptr;  // null: no name
  std::int32_t number_ = 0;
};

/// A text of which there are few: equal labels share one text, which is never freed.
class Label {
 public:
  Label() : Label("") {}
  Label(std::string_view text);
  Label(const char* text) : Label(std::string_view(text)) {}
  Label(const std::string& text) : Label(std::string_view(text)) {}
  const std::string& text() const { return *text_; }
  operator const std::string&() const { return *text_; }
  bool operator==(const Label&) const = default;
  bool operator<(const Label& other) const { return *text_ < *other.text_; }
  bool operator==(std::string_view other) const { return *text_ == other; }
  bool operator==(const char* other) const { return *text_ == other; }

 private:
  const std::string* text_;
};

}  // namespace trainyard

template <>
struct fmt::formatter<trainyard::LinkName> : fmt::formatter<std::string> {
  auto format(const trainyard::LinkName& name, format_context& context) const {
    return fmt::formatter<std::string>::format(name.text(), context);
  }
};
template <>
struct fmt::formatter<trainyard::Label> : fmt::formatter<std::string> {
  auto format(const trainyard::Label& label, format_context& context) const {
    return fmt::formatter<std::string>::format(label.text(), context);
  }
};
