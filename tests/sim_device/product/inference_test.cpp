/// Evaluation and prediction on sim:0 while host reads are forbidden, with the CPU's answers.

#include "../device/support.h"
#include "finetune/train/evaluate.h"
#include "finetune/train/predict.h"
#include "tiny_run.h"

namespace finetune::sim {
namespace {

class SimInference : public SimTest {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    Json config = tiny_config(folder_->path(), "cpu");
    config["train"]["max_steps"] = 3;
    RunOptions options;
    options.quiet = true;
    run(parse_run_config(config, folder_->path()), options);
    write_rows(folder_->path() / "many.csv", 300, 5);
  }
  static void TearDownTestSuite() { delete folder_; }

  static TrainedModel model(c10::Device device) {
    return load_trained_model(folder_->path() / "run" / "model", device);
  }
  static std::unique_ptr<RowReader> rows(const TrainedModel& trained) {
    return open_rows(folder_->path() / "many.csv", trained.data, LabelPresence::kRequired);
  }
  static std::vector<Json> answers(c10::Device device) {
    const TrainedModel trained = model(device);
    std::vector<Json> all;
    const auto reader = rows(trained);
    const StrictSection strict(StrictSection::kReads);
    predict(trained, device, *reader,
            [&](const Prediction& prediction) { all.push_back(prediction.answer); });
    return all;
  }

  static TemporaryFolder* folder_;
};

TemporaryFolder* SimInference::folder_ = nullptr;

TEST_F(SimInference, PredictionsReadNothingBackButTheirLogitsInTheBackground) {
  const auto expected = answers(c10::Device(c10::kCPU));
  reset_counters();
  EXPECT_EQ(answers(kSim), expected);
  EXPECT_EQ(expected.size(), 300u);
  EXPECT_EQ(counters().host_reads, 0);
  EXPECT_GT(counters().async_reads, 0);
  EXPECT_EQ(reports(), "");
}

TEST_F(SimInference, AnEvaluationWaitsForTheDeviceOnlyAtItsEnd) {
  const TrainedModel trained = model(kSim);
  TextDataset texts = read_dataset({folder_->path() / "many.csv"}, trained.data, LabelPresence::kRequired);
  const EncodedDataset encoded = encode_dataset(
      texts, *trained.tokenizer, encode_options(trained.data, trained.model->config().max_positions),
      trained.task->labels(), 1);
  const DeviceDataset dataset = to_device(encoded, kSim),
                      on_host = to_device(encoded, c10::Device(c10::kCPU));
  const auto meter = trained.task->make_meter(kSim);
  {
    const StrictSection strict(StrictSection::kWaits);
    for_each_batch(*trained.model, *trained.task, dataset, [&](const Answered& answered) {
      meter->add(trained.task->loss_sum(answered.logits, answered.labels), answered.logits, answered.labels,
                 1.0);
    });
  }
  reset_counters();
  EXPECT_EQ(evaluate(*trained.model, dataset, *trained.task),
            evaluate(*model(c10::Device(c10::kCPU)).model, on_host, *trained.task));
  EXPECT_LE(counters().host_reads, 3) << "the meter's drain";
  EXPECT_EQ(reports(), "");
}

}  // namespace
}  // namespace finetune::sim
