/// Faults in the order of work, planted in a training step: each must be reported with the operators in
/// question.

#include "training_step.h"

namespace finetune::sim {
namespace {

void nothing(TrainingStep&) {}

/// Runs `body` on the step's side stream, which waits for nothing.
void on_side(TrainingStep& s, const std::function<void()>& body) {
  const c10::StreamGuard on(s.side);
  body();
}

std::vector<Fault> stream_faults() {
  return {
      {"no_wait_for_the_batch", [](TrainingStep& s) { s.wait = nothing; },
       "by copy to device, then read on stream 0 of sim:0 by aten::index_select without a wait"},
      {"wait_for_an_event_recorded_too_early",
       [](TrainingStep& s) {
         s.upload = [](TrainingStep& step) {
           const c10::StreamGuard on(step.side);
           step.ready.record(step.side);
           step.ids = step.host_ids.to(kSim, true);
           step.labels = step.host_labels.to(kSim, true);
         };
       },
       "by copy to device, then read on stream 0 of sim:0"},
      {"event_recorded_between_two_copies",
       [](TrainingStep& s) {
         s.upload = [](TrainingStep& step) {
           const c10::StreamGuard on(step.side);
           step.ids = step.host_ids.to(kSim, true);
           step.ready.record(step.side);
           step.labels = step.host_labels.to(kSim, true);
         };
       },
       "by copy to device, then read on stream 0 of sim:0 by aten::nll_loss_forward"},
      {"another_stream_waits",
       [](TrainingStep& s) { s.wait = [](TrainingStep& step) { side_stream().wait(step.ready); }; },
       "then read on stream 0 of sim:0"},
      {"the_event_of_another_stream",
       [](TrainingStep& s) { s.wait = [](TrainingStep& step) { step.main.wait(recorded(side_stream())); }; },
       "then read on stream 0 of sim:0"},
      {"target_allocated_on_the_main_stream",
       [](TrainingStep& s) {
         s.upload = [](TrainingStep& step) {
           step.ids = at::empty_like(step.host_ids, kOnSim.dtype(at::kLong));
           step.labels = step.host_labels.to(kSim, true);
           on_side(step, [&] { step.ids.copy_(step.host_ids, true); });
           step.ready.record(step.side);
         };
       },
       "by its allocation, then written on stream"},
      {"next_batch_into_the_tensor_in_use",
       [](TrainingStep& s) {
         s.before_backward = [](TrainingStep& step) {
           on_side(step, [&] { step.ids.copy_(step.host_ids, true); });
         };
       },
       "read on stream 0 of sim:0 by aten::index_select, then written on stream"},
      {"weights_evaluated_while_they_change",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) {
           on_side(step, [&] { step.kept = step.model.get("head").detach().sum(); });
         };
       },
       "written on stream 0 of sim:0 by aten::_fused_adamw_, then read on stream"},
      {"weights_changed_while_they_are_read",
       [](TrainingStep& s) {
         s.before_update = [](TrainingStep& step) {
           step.side.wait(recorded(step.main));
           on_side(step, [&] { step.kept = step.model.get("head").detach().clone(); });
         };
       },
       "then written on stream 0 of sim:0 by aten::_fused_adamw_"},
      {"gradients_read_before_backward_ends",
       [](TrainingStep& s) {
         s.before_update = [](TrainingStep& step) {
           on_side(step, [&] { step.kept = step.model.get("head").grad().norm(); });
         };
       },
       "then read on stream"},
      {"update_on_a_stream_of_its_own",
       [](TrainingStep& s) {
         s.before_update = [](TrainingStep& step) { on_side(step, [&] { step.optimizer.step(1e-3); }); };
       },
       "by aten::_foreach_norm.Scalar without a wait"},
      {"a_sum_cleared_on_another_stream",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) { on_side(step, [&] { step.loss_sum.zero_(); }); };
       },
       "then written on stream"},
      {"two_streams_write_one_slice",
       [](TrainingStep& s) {
         s.before_forward = [](TrainingStep& step) {
           const at::Tensor flat = at::zeros({2, 512}, kOnSim);
           step.side.wait(recorded(step.main));
           on_side(step, [&] { flat[0].fill_(1); });
           flat[0].add_(1);
           flat.record_stream(step.side);
         };
       },
       "by aten::fill_.Scalar, then written on stream 0 of sim:0 by aten::add_.Tensor"},
      {"another_device_reads_before_its_copy_is_there",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) {
           const auto other = side_stream(kSim1);
           at::Tensor there;
           {
             const c10::StreamGuard on(other);
             there = step.loss_sum.to(kSim1, true);
           }
           step.kept = there + 1;
           there.record_stream(main_stream(kSim1));
         };
       },
       "by copy between devices, then read on stream 0 of sim:1 by aten::add.Tensor"},
  };
}

std::vector<Fault> buffer_faults() {
  return {
      {"freed_without_record_stream", [](TrainingStep& s) { s.record = nothing; }, "early free of storage"},
      {"recorded_on_the_wrong_stream",
       [](TrainingStep& s) {
         s.record = [](TrainingStep& step) {
           const auto other = side_stream();
           step.ids.record_stream(other);
           step.labels.record_stream(other);
         };
       },
       "no wait and no record_stream"},
      {"a_temporary_of_the_side_stream_freed_early",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) {
           at::Tensor scratch;
           on_side(step, [&] { scratch = at::zeros({4}, kOnSim); });
           step.main.wait(recorded(step.side));
           step.loss_sum.add_(scratch.sum());
         };
       },
       "early free of storage"},
      {"pinned_buffer_overwritten_in_flight",
       [](TrainingStep& s) { s.before_forward = [](TrainingStep& step) { step.host_ids.zero_(); }; },
       "overwritten by the host before its copy"},
      {"pinned_labels_overwritten_in_flight",
       [](TrainingStep& s) { s.before_backward = [](TrainingStep& step) { step.host_labels.add_(1); }; },
       "pinned source of 64 bytes overwritten by the host"},
      {"next_batch_into_the_pinned_buffer_in_flight",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) {
           step.host_ids.copy_(at::randint(step.shape.vocabulary, step.host_ids.sizes(), at::kLong));
           const c10::StreamGuard on(step.side);
           step.kept = step.host_ids.to(kSim, true);
         };
       },
       "overwritten by the host before its copy"},
      {"two_downloads_into_one_pinned_buffer",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) {
           const at::Tensor pinned = at::empty({1}).pin_memory();
           pinned.copy_(step.loss_sum.view({1}), true);
           on_side(step, [&] { pinned.copy_(at::ones({1}, kOnSim), true); });
         };
       },
       "race on pinned buffer"},
      {"upload_from_a_pinned_buffer_that_is_being_filled",
       [](TrainingStep& s) {
         s.after_update = [](TrainingStep& step) {
           const at::Tensor pinned = at::empty({1}).pin_memory();
           pinned.copy_(step.loss_sum.view({1}), true);
           on_side(step, [&] { step.kept = pinned.to(kSim, true); });
         };
       },
       "written on stream 0 of sim:0 by copy to host, then read on stream"},
  };
}

class SimOrderFaults : public SimTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(SimOrderFaults, IsCaughtAndNamed) { EXPECT_SAYS(caught(GetParam().plant), GetParam().says); }

INSTANTIATE_TEST_SUITE_P(Streams, SimOrderFaults, ::testing::ValuesIn(stream_faults()), fault_name);
INSTANTIATE_TEST_SUITE_P(Buffers, SimOrderFaults, ::testing::ValuesIn(buffer_faults()), fault_name);

using SimCleanStep = SimTest;

TEST_F(SimCleanStep, IsNotReported) { EXPECT_EQ(caught(nothing), "\n"); }

TEST_F(SimCleanStep, EqualsTheCpus) {
  TrainingStep step;
  const at::Tensor ids = step.host_ids, labels = step.host_labels;
  Encoder host(step.shape, at::kCPU);
  host.init(7);
  EXPECT_EQ(step.run(), host.loss(ids, labels).item<double>());
}

TEST_F(SimCleanStep, ADownloadReadTooEarlyIsVisibleRubbish) {
  TrainingStep step;
  at::Tensor early = at::empty({1}).pin_memory();
  step.after_update = [&](TrainingStep& s) { early.copy_(s.loss_sum.view({1}), /*non_blocking=*/true); };
  double too_early = 0;
  {
    const auto update = step.after_update;
    step.after_update = [&](TrainingStep& s) {
      update(s);
      too_early = early.item<double>();
    };
  }
  const double loss = step.run();
  EXPECT_TRUE(std::isnan(too_early));
  EXPECT_EQ(early.item<float>(), static_cast<float>(loss));
}

}  // namespace
}  // namespace finetune::sim
