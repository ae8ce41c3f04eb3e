#include "scenarios/src/pictures/svg.hpp"

#include "models/reading/xml_text.hpp"

namespace trainyard {
namespace {

std::string opacity_of(double opacity) {
  return opacity < 1 ? fmt::format(" fill-opacity=\"{}\"", Svg::number(opacity)) : "";
}

std::string attributes_of(const Svg::Stroke& stroke) {
  return fmt::format(" stroke=\"{}\"{}{}{}", stroke.color,
                     stroke.width == 1 ? "" : fmt::format(" stroke-width=\"{}\"", Svg::number(stroke.width)),
                     stroke.dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", stroke.dashes),
                     stroke.attributes);
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title, std::string_view description)
    : width_(width), height_(height), title_(title), description_(description) {}

void Svg::resize(double width, double height) {
  width_ = width;
  height_ = height;
}

void Svg::rect(double x, double y, double width, double height, std::string_view fill, double opacity) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"{}/>\n", number(x), number(y),
                       number(width), number(height), fill, opacity_of(opacity));
}

void Svg::frame(double x, double y, double width, double height, std::string_view stroke) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", number(x),
                       number(y), number(width), number(height), stroke);
}

void Svg::bar(double x, double y, double width, double height, std::string_view fill, std::string_view text,
              std::string_view ink) {
  rect(x, y, width, height, fill);
  if (!text.empty() && text_width(text, 11) < width - 6)
    this->text(x + width / 2, y + height / 2 + 4, text, {.fill = ink, .anchor = Anchor::middle});
}

void Svg::box(double x, double y, double width, double height, std::string_view fill, std::string_view stroke,
              std::string_view name, std::string_view detail) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"{}\" rx=\"3\"/>\n",
                       number(x), number(y), number(width), number(height), fill, stroke);
  const double middle = y + height / 2;
  text(x + width / 2, middle + (detail.empty() ? 4 : -3), name, {.anchor = Anchor::middle, .bold = true});
  if (!detail.empty()) text(x + width / 2, middle + 12, detail, {.size = 10, .anchor = Anchor::middle});
}

void Svg::line(double x1, double y1, double x2, double y2, const Stroke& stroke) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", number(x1), number(y1), number(x2),
                       number(y2), attributes_of(stroke));
}

void Svg::path(std::string_view path, std::string_view fill, double opacity) {
  body_ += fmt::format("<path d=\"{}\" fill=\"{}\"{}/>\n", path, fill, opacity_of(opacity));
}

void Svg::curve(std::string_view path, const Stroke& stroke) {
  body_ += fmt::format("<path d=\"{}\" fill=\"none\"{}/>\n", path, attributes_of(stroke));
}

void Svg::text(double x, double y, std::string_view text, const TextStyle& style) {
  const char* anchor = style.anchor == Anchor::start    ? ""
                       : style.anchor == Anchor::middle ? " text-anchor=\"middle\""
                                                        : " text-anchor=\"end\"";
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}{}{}>{}</text>\n", number(x), number(y),
                       number(style.size), style.fill, anchor, style.bold ? " font-weight=\"bold\"" : "",
                       style.halo ? " stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\"" : "", escape(text));
}

std::string Svg::finish() const {
  Svg paper(width_, height_, "");
  paper.rect(0, 0, width_, height_, "#ffffff");  // a background, because pictures may be shown on dark pages
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n<title>{2}</title>\n{3}{4}{5}</svg>\n",
      number(width_), number(height_), escape(title_),
      description_.empty() ? "" : fmt::format("<desc>{}</desc>\n", escape(description_)), paper.body_, body_);
}

std::string Svg::number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string Svg::escape(std::string_view text) { return xml_escaped(text); }

double Svg::text_width(std::string_view text, double size) {
  double letters = 0;
  for (const char c : text)
    letters += (static_cast<unsigned char>(c) & 0xc0U) != 0x80 ? 1 : 0;  // counts UTF-8 characters
  return 0.54 * size * letters;
}

}  // namespace trainyard
