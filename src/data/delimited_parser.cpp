#include "finetune/data/delimited_parser.h"

#include <algorithm>
#include <cstring>

#include "finetune/data/message.h"

namespace finetune {

DelimitedParser::DelimitedParser(TextSource& source, char delimiter) : source_(source) {
  ends_field_[static_cast<unsigned char>(delimiter)] = true;
  ends_field_[static_cast<unsigned char>('\n')] = true;
}

bool DelimitedParser::next(Record& record) {
  while (true) {
    source_.consume(record_size_);
    record_size_ = 0;
    if (!scan_record()) return false;
    const bool empty_line = spans_.size() == 1 && spans_[0].begin == spans_[0].end;
    if (!empty_line) break;
  }
  if (first_) refuse_bare_carriage_returns();
  first_ = false;
  record.line = source_.line();
  record.end_line = record.line;
  record.replaced = source_.take_replaced(record_size_);
  for (const Span& span : spans_) {
    if (span.closing_quote != 0) {
      record.end_line = line_at(record_size_ - 1);
      break;
    }
  }
  record.fields.clear();
  for (const Span& span : spans_) record.fields.push_back(materialize(span));
  return true;
}

bool DelimitedParser::scan_record() {
  spans_.clear();
  if (!has_byte(0)) return false;
  for (size_t position = 0;; ++position) {
    Span span = scan_field(position);
    position = span.end;
    const bool at_end = position == source_.window().size();
    const bool last = at_end || source_.window()[position] == '\n';
    if (last) trim_carriage_return(span);
    refuse_swallowed_rows(span);
    spans_.push_back(span);
    if (last) {
      record_size_ = position + (at_end ? 0 : 1);
      return true;
    }
  }
}

DelimitedParser::Span DelimitedParser::scan_field(size_t begin) {
  Span span;
  span.begin = begin;
  span.end = begin;
  if (has_byte(begin) && source_.window()[begin] == '"') skip_quoted(span);
  span.end = find_field_end(span.end);
  return span;
}

void DelimitedParser::skip_quoted(Span& span) {
  size_t position = span.begin + 1;
  while (true) {
    const std::string_view window = source_.window();
    const size_t quote = window.find('"', position);
    if (quote == std::string_view::npos) {
      position = window.size();
      if (!has_byte(position, &span)) {
        throw_data_error(
            source_.path(), line_at(span.begin),
            "quoted field not closed before end of file; add the closing double quote, or, where "
            "the quote is part of the text, quote the field and double it");
      }
    } else if (has_byte(quote + 1, &span) && source_.window()[quote + 1] == '"') {
      span.doubled = true;
      position = quote + 2;
    } else {
      span.closing_quote = quote;
      span.end = quote + 1;
      return;
    }
  }
}

size_t DelimitedParser::find_field_end(size_t position) {
  while (true) {
    const std::string_view window = source_.window();
    const auto* bytes = reinterpret_cast<const unsigned char*>(window.data());
    const size_t size = window.size();
    while (position < size && !ends_field_[bytes[position]]) ++position;
    if (position < size || !has_byte(position)) return position;
  }
}

bool DelimitedParser::has_byte(size_t position, const Span* open_quote) {
  if (position < source_.window().size()) return true;
  if (source_.window().size() > kMaxRowBytes) {
    const std::string limit = std::to_string(kMaxRowBytes >> 20) + " MiB";
    if (open_quote != nullptr) {
      throw_data_error(source_.path(), line_at(open_quote->begin),
                       "quoted field is not closed within " + limit + "; add the closing double quote");
    }
    const bool bare = source_.window().find('\r') != std::string_view::npos;
    throw_data_error(source_.path(), source_.line(),
                     "row is longer than " + limit +
                         (bare ? "; does the file end its lines with CR alone? Convert them to LF"
                               : "; split it, or check the line ends"));
  }
  return source_.extend();
}

void DelimitedParser::trim_carriage_return(Span& span) const {
  const size_t begin = span.closing_quote != 0 ? span.closing_quote + 1 : span.begin;
  if (span.end > begin && source_.window()[span.end - 1] == '\r') --span.end;
}

void DelimitedParser::refuse_swallowed_rows(const Span& span) const {
  if (span.closing_quote == 0 || span.end == span.closing_quote + 1) return;
  const std::string_view inside = source_.window().substr(span.begin, span.closing_quote - span.begin);
  if (inside.find('\n') == std::string_view::npos) return;
  throw_data_error(source_.path(), line_at(span.begin),
                   "a quoted field that begins here ends on line " +
                       std::to_string(line_at(span.closing_quote)) +
                       " and has text after its closing quote, so a stray double quote has probably joined "
                       "rows; where quotes are part of the text, quote the field and double them");
}

void DelimitedParser::refuse_bare_carriage_returns() const {
  const std::string_view window = source_.window();
  if (window[record_size_ - 1] == '\n') return;
  for (const Span& span : spans_) {
    const size_t begin = span.closing_quote != 0 ? span.closing_quote + 1 : span.begin;
    if (window.substr(begin, span.end - begin).find('\r') == std::string_view::npos) continue;
    throw_data_error(
        source_.path(), source_.line(),
        "lines end with CR alone, expected LF or CRLF; convert the file with: tr '\\r' '\\n' < IN > OUT");
  }
}

std::string_view DelimitedParser::materialize(const Span& span) {
  const std::string_view window = source_.window();
  if (span.closing_quote == 0) return window.substr(span.begin, span.end - span.begin);
  const size_t begin = span.begin + 1;
  const bool tail = span.end > span.closing_quote + 1;
  if (!span.doubled && !tail) return window.substr(begin, span.closing_quote - begin);

  // In place, as the result is never longer. What is left over behind it is overwritten: `consume` counts the
  // window's line feeds.
  char* bytes = source_.mutable_window();
  size_t to = begin;
  for (size_t from = begin; from < span.closing_quote; ++from) {
    bytes[to++] = bytes[from];
    if (bytes[from] == '"') ++from;
  }
  const size_t tail_size = span.end - span.closing_quote - 1;
  std::memmove(bytes + to, bytes + span.closing_quote + 1, tail_size);
  to += tail_size;
  std::memset(bytes + to, '"', span.end - to);
  return {bytes + begin, to - begin};
}

int64_t DelimitedParser::line_at(size_t position) const {
  const std::string_view before = source_.window().substr(0, position);
  return source_.line() + std::count(before.begin(), before.end(), '\n');
}

}  // namespace finetune
