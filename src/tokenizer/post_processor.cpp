#include "post_processor.h"

namespace finetune {

RowTemplate bert_template(const std::string& cls_token, int32_t cls_id, const std::string& sep_token,
                          int32_t sep_id) {
  const TemplateToken cls = {cls_token, cls_id, 0};
  const TemplateToken sep = {sep_token, sep_id, 0};
  const TemplateToken second_sep = {sep_token, sep_id, 1};
  return {{{cls}, {sep}, 0}, {{cls}, {sep}, {second_sep}, 0, 1}};
}

RowTemplate roberta_template(const std::string& cls_token, int32_t cls_id, const std::string& sep_token,
                             int32_t sep_id) {
  const TemplateToken cls = {cls_token, cls_id, 0};
  const TemplateToken sep = {sep_token, sep_id, 0};
  return {{{cls}, {sep}, 0}, {{cls}, {sep, sep}, {sep}, 0, 0}};
}

}  // namespace finetune
