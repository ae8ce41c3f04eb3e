#pragma once

#include <string>
#include <string_view>

namespace trainyard {

/// A self-contained SVG picture: it has its own background, no links, no scripts. Equal calls give equal bytes.
class Svg {
 public:
  enum class Anchor { start, middle, end };
  struct TextStyle {
    double size = 11;
    std::string_view fill = "#222222";
    Anchor anchor = Anchor::start;
    bool bold = false;
    bool halo = false;  ///< white outline around letters, for text over lines
  };
  /// The style of a line. A color alone gives a thin solid line.
  struct Stroke {
    std::string_view color;
    double width = 1;
    std::string_view dashes = "";      ///< lengths of dashes and gaps: "5 3"
    std::string_view attributes = "";  ///< further attributes of the element, such as ` data-busy="0.5"`
    Stroke(const char* name) : color(name) {}
    Stroke(const char* name, double thickness, std::string_view dashed = "", std::string_view more = "")
        : color(name), width(thickness), dashes(dashed), attributes(more) {}
  };

  /// `title` and `description` are the alternative text, for readers who cannot see the picture.
  Svg(double width, double height, std::string_view title, std::string_view description = "");
  void resize(double width, double height);
  /// Draws the contents of another picture over this one.
  void add(const Svg& above) { body_ += above.body_; }

  void rect(double x, double y, double width, double height, std::string_view fill, double opacity = 1);
  void frame(double x, double y, double width, double height, std::string_view stroke);
  /// Draws a rectangle with a centred text. A text that does not fit is left out.
  void bar(double x, double y, double width, double height, std::string_view fill, std::string_view text,
           std::string_view ink = "#222222");
  /// Draws a framed box with rounded corners, a name in it, and below the name a detail.
  void box(double x, double y, double width, double height, std::string_view fill, std::string_view stroke,
           std::string_view name, std::string_view detail = "");
  void line(double x1, double y1, double x2, double y2, const Stroke&);
  /// `path` has the syntax of the `d` attribute.
  void path(std::string_view path, std::string_view fill, double opacity = 1);
  void curve(std::string_view path, const Stroke&);
  void text(double x, double y, std::string_view text, const TextStyle&);

  std::string finish() const;

  /// Writes at most two decimals: a hundredth of a pixel is not visible, and the file stays small.
  static std::string number(double);
  /// Replaces `&`, `<`, `>` and quotes by entities, and control characters, which XML forbids, by spaces.
  static std::string escape(std::string_view);
  /// Estimates the width of a text without its font. The estimate is generous, because boxes must be wider than their
  /// text.
  static double text_width(std::string_view text, double size);

 private:
  double width_, height_;
  std::string title_, description_, body_;
};

}  // namespace trainyard
