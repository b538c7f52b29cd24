#include "train_state.h"

namespace finetune {

Json to_json(const TrainState& state) {
  Json json{{"step", state.step},
            {"evaluated", state.evaluated},
            {"rows_seen", state.rows_seen},
            {"tokens_seen", state.tokens_seen},
            {"train_seconds", state.train_seconds},
            {"micro_batch_tokens", state.micro_batch_tokens},
            {"first_epoch", state.first_epoch},
            {"evaluations_without_gain", state.evaluations_without_gain}};
  if (!state.source.is_null()) json["source"] = state.source;
  if (state.best) {
    json["best"] =
        Json{{"step", state.best->step}, {"value", state.best->value}, {"metrics", state.best->metrics}};
  }
  return json;
}

TrainState train_state_from(const Json& json) {
  TrainState state{.step = json.at("step").get<int64_t>(),
                   .evaluated = json.at("evaluated").get<int64_t>(),
                   .rows_seen = json.at("rows_seen").get<int64_t>(),
                   .tokens_seen = json.at("tokens_seen").get<int64_t>(),
                   .train_seconds = json.at("train_seconds").get<double>(),
                   .micro_batch_tokens = json.at("micro_batch_tokens").get<int64_t>(),
                   .first_epoch = json.value("first_epoch", int64_t{0}),
                   .source = json.value("source", Json()),
                   .best = std::nullopt,
                   .evaluations_without_gain = json.value("evaluations_without_gain", int64_t{0})};
  if (const auto best = json.find("best"); best != json.end()) {
    state.best =
        BestResult{best->at("step").get<int64_t>(), best->at("value").get<double>(), best->at("metrics")};
  }
  return state;
}

}  // namespace finetune
