#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "finetune/data/text_source.h"

namespace finetune {

/// Splits CSV or TSV text into records, as RFC 4180, Python's `csv` and pandas do:
/// - a field that begins with a double quote runs to the closing quote and may hold delimiters, line breaks
/// and doubled quotes;
/// - a quote anywhere else is a character, and text after a closing quote belongs to the field;
/// - records end at LF or CRLF; a lone CR is a character; empty lines are skipped.
class DelimitedParser {
 public:
  /// Fields are views that live until the next call.
  struct Record {
    std::vector<std::string_view> fields;
    int64_t line = 0;       ///< of the first byte, from 1
    int64_t end_line = 0;   ///< of the last byte
    bool replaced = false;  ///< bytes that were not UTF-8 were replaced
  };

  DelimitedParser(TextSource& source, char delimiter);

  /// The next record; false at the end of the file. Throws `DataError` for a quote that is not closed, for
  /// text after a quoted field that holds line breaks (a stray quote would swallow rows in silence), for a
  /// record above `kMaxRowBytes`, and for a file whose lines end with CR alone.
  bool next(Record& record);

 private:
  /// Bytes [begin, end) of the record.
  struct Span {
    size_t begin = 0;
    size_t end = 0;
    size_t closing_quote = 0;  ///< 0: not quoted
    bool doubled = false;      ///< has doubled quotes inside
  };

  bool scan_record();
  Span scan_field(size_t begin);
  void skip_quoted(Span& span);
  size_t find_field_end(size_t position);
  bool has_byte(size_t position, const Span* open_quote = nullptr);
  void trim_carriage_return(Span& span) const;
  void refuse_swallowed_rows(const Span& span) const;
  void refuse_bare_carriage_returns() const;
  std::string_view materialize(const Span& span);
  int64_t line_at(size_t position) const;

  TextSource& source_;
  bool ends_field_[256] = {};
  std::vector<Span> spans_;
  size_t record_size_ = 0;  ///< of the last record in the window, line end included
  bool first_ = true;
};

}  // namespace finetune
