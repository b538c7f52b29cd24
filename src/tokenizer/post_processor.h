#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace finetune {

/// A special token that a template puts around texts.
struct TemplateToken {
  std::string token;
  int32_t id;
  int32_t type_id;
  bool operator==(const TemplateToken&) const = default;
};

/// What a single text is wrapped in: special tokens, text, special tokens.
struct SingleTemplate {
  std::vector<TemplateToken> before;
  std::vector<TemplateToken> after;
  int32_t type_id = 0;  ///< of the text's tokens
  bool operator==(const SingleTemplate&) const = default;

  int64_t num_special() const { return static_cast<int64_t>(before.size() + after.size()); }
};

struct PairTemplate {
  std::vector<TemplateToken> before;
  std::vector<TemplateToken> between;
  std::vector<TemplateToken> after;
  int32_t first_type_id = 0;
  int32_t second_type_id = 1;
  bool operator==(const PairTemplate&) const = default;

  int64_t num_special() const { return static_cast<int64_t>(before.size() + between.size() + after.size()); }
};

/// The special tokens and token types of rows (the reference's `TemplateProcessing`). WordPiece's templates
/// have types that begin with zeros and go on with ones (`check_segments`).
struct RowTemplate {
  SingleTemplate single;
  PairTemplate pair;
  bool operator==(const RowTemplate&) const = default;
};

/// [CLS] A [SEP], and [CLS] A [SEP] B [SEP] with type 1 from B on.
RowTemplate bert_template(const std::string& cls_token, int32_t cls_id, const std::string& sep_token,
                          int32_t sep_id);

/// <s> A </s>, and <s> A </s></s> B </s>, all of type 0.
RowTemplate roberta_template(const std::string& cls_token, int32_t cls_id, const std::string& sep_token,
                             int32_t sep_id);

/// Whether the offsets of byte-level pieces leave out the blanks at their ends.
struct OffsetTrim {
  bool trims = false;
  bool add_prefix_space = true;  ///< the first piece's blank may not be the text's own
  bool operator==(const OffsetTrim&) const = default;
};

struct PostProcessor {
  RowTemplate rows;
  bool has_rows = false;  ///< special tokens are added; else `rows` is the default
  OffsetTrim trim;
};

}  // namespace finetune
