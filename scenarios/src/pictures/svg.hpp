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
    bool halo = false;  ///< white around letters that stand on lines
  };
  /// How a line is drawn; a color alone is a thin line.
  struct Stroke {
    std::string_view color;
    double width = 1;
    std::string_view dashes = "";      ///< lengths of dashes and gaps: "5 3"
    std::string_view attributes = "";  ///< further ones of the element, as ` data-busy="0.5"`
    Stroke(const char* name) : color(name) {}
    Stroke(const char* name, double thickness, std::string_view dashed = "", std::string_view more = "")
        : color(name), width(thickness), dashes(dashed), attributes(more) {}
  };

  /// `title` and `description` are read out to those who cannot see the picture.
  Svg(double width, double height, std::string_view title, std::string_view description = "");
  void resize(double width, double height);
  /// Puts what another picture shows over this one.
  void add(const Svg& above) { body_ += above.body_; }

  void rect(double x, double y, double width, double height, std::string_view fill, double opacity = 1);
  void frame(double x, double y, double width, double height, std::string_view stroke);
  /// A rectangle with a text in its middle; a text that does not fit is left out.
  void bar(double x, double y, double width, double height, std::string_view fill, std::string_view text,
           std::string_view ink = "#222222");
  /// A framed box with rounded corners: a name, and below it what there is to say of it.
  void box(double x, double y, double width, double height, std::string_view fill, std::string_view stroke,
           std::string_view name, std::string_view detail = "");
  void line(double x1, double y1, double x2, double y2, const Stroke&);
  /// `path` is in the words of the `d` attribute.
  void path(std::string_view path, std::string_view fill, double opacity = 1);
  void curve(std::string_view path, const Stroke&);
  void text(double x, double y, std::string_view text, const TextStyle&);

  std::string finish() const;

  /// Two decimals at most: a hundredth of a pixel is not seen, and the file stays small.
  static std::string number(double);
  /// `&`, `<`, `>` and quotes as entities; control characters, which XML forbids, as spaces.
  static std::string escaped(std::string_view);
  /// About how wide the text is, without a font at hand (generous: boxes must hold their text).
  static double text_width(std::string_view text, double size);

 private:
  double width_, height_;
  std::string title_, description_, body_;
};

}  // namespace trainyard
