#pragma once
#include <fmt/core.h>

#include <string>
#include <string_view>

namespace trainyard {

/// A picture in SVG that stands alone: its own background, no links, no scripts. Equal calls give equal bytes.
class Svg {
 public:
  enum class Anchor { start, middle, end };
  struct TextStyle {
    double size = 11;
    std::string_view fill = "#222222";
    Anchor anchor = Anchor::start;
    bool bold = false;
  };

  /// `title` and `description` are read out to those who cannot see the picture.
  Svg(double width, double height, std::string_view title, std::string_view description);

  void rect(double x, double y, double width, double height, std::string_view fill, double opacity = 1);
  void frame(double x, double y, double width, double height, std::string_view stroke);
  void line(double x1, double y1, double x2, double y2, std::string_view stroke, bool dashed = false);
  /// `path` is in the words of the `d` attribute.
  void path(std::string_view path, std::string_view fill, double opacity = 1);
  void text(double x, double y, std::string_view text, const TextStyle&);

  std::string finish() const { return body_ + "</svg>\n"; }

  /// Two decimals at most: a hundredth of a pixel is not seen, and the file stays small.
  static std::string number(double);
  /// `&`, `<`, `>` and quotes as entities; control characters, which XML forbids, as spaces.
  static std::string escaped(std::string_view);
  /// About how wide the text is, without a font at hand (generous: boxes must hold their text).
  static double text_width(std::string_view text, double size);

 private:
  std::string body_;
};

}  // namespace trainyard
