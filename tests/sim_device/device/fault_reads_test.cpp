/// Host reads, waits and operands on another device, planted in a training step: each must throw the
/// operator's name.

#include <ATen/DeviceAccelerator.h>
#include <torch/nn/utils/clip_grad.h>

#include <sstream>

#include "training_step.h"

namespace finetune::sim {
namespace {

/// Plants `body` between the backward pass and the update.
std::function<void(TrainingStep&)> planted(std::function<void(TrainingStep&)> body) {
  return [body = std::move(body)](TrainingStep& s) { s.before_update = body; };
}

std::vector<Fault> read_faults() {
  return {
      {"item", planted([](TrainingStep& s) { s.loss.item<float>(); }),
       "waits for the device in aten::_local_scalar_dense"},
      {"cpu", planted([](TrainingStep& s) { s.loss.cpu(); }), "waits for the device in a copy to the host"},
      {"copy_into_a_host_tensor", planted([](TrainingStep& s) { at::zeros({}).copy_(s.loss.detach()); }),
       "a copy to the host"},
      {"non_blocking_into_pageable_memory",
       planted([](TrainingStep& s) { at::zeros({}).copy_(s.loss.detach(), /*non_blocking=*/true); }),
       "a copy to the host"},
      {"download_that_changes_the_type", planted([](TrainingStep& s) {
         at::zeros({1}, at::kDouble).pin_memory().copy_(s.loss.detach(), true);
       }),
       "a copy to the host"},
      {"printing", planted([](TrainingStep& s) {
         std::ostringstream out;
         out << s.loss;
       }),
       "a copy to the host"},
      {"branch_on_a_value", planted([](TrainingStep& s) {
         if ((s.loss > 1e4).is_nonzero()) s.loss_sum.zero_();
       }),
       "aten::_local_scalar_dense"},
      {"nonzero", planted([](TrainingStep& s) { s.labels.nonzero(); }), "aten::nonzero"},
      {"boolean_index", planted([](TrainingStep& s) { s.labels.index({s.labels > 0}); }),
       "aten::index.Tensor"},
      {"boolean_index_put",
       planted([](TrainingStep& s) { s.labels.clone().index_put_({s.labels > 0}, s.labels); }),
       "aten::_index_put_impl_"},
      {"masked_select", planted([](TrainingStep& s) { s.labels.masked_select(s.labels > 0); }),
       "aten::masked_select"},
      {"unique", planted([](TrainingStep& s) { at::_unique2(s.labels); }), "aten::_unique2"},
      {"bincount", planted([](TrainingStep& s) { at::bincount(s.labels); }), "aten::bincount"},
      {"equal", planted([](TrainingStep& s) { s.labels.equal(s.labels); }), "aten::equal"},
      {"allclose", planted([](TrainingStep& s) { at::allclose(s.loss_sum, s.loss_sum); }),
       "inside strict section"},
      {"repeat_by_a_tensor", planted([](TrainingStep& s) { s.labels.repeat_interleave(s.labels); }),
       "aten::repeat_interleave"},
      {"clip_grad_norm_of_the_frontend",
       planted([](TrainingStep& s) { torch::nn::utils::clip_grad_norm_(s.model.parameters(), 1.0); }),
       "aten::_local_scalar_dense"},
      {"item_in_a_backward_hook",
       [](TrainingStep& s) {
         s.before_backward = [](TrainingStep& step) {
           step.loss.register_hook([](const at::Tensor& grad) { grad.item<float>(); });
         };
       },
       "aten::_local_scalar_dense"},
  };
}

std::vector<Fault> wait_faults() {
  return {
      {"pageable_upload", planted([](TrainingStep& s) { s.kept = at::ones({4}).to(kSim); }),
       "a blocking copy to the device"},
      {"non_blocking_pageable_upload",
       planted([](TrainingStep& s) { s.kept = at::ones({4}).to(kSim, true); }),
       "a blocking copy to the device"},
      {"blocking_pinned_upload", planted([](TrainingStep& s) { s.kept = s.host_labels.to(kSim); }),
       "a blocking copy to the device"},
      {"upload_that_changes_the_type",
       planted([](TrainingStep& s) { s.kept = s.host_labels.to(kOnSim.dtype(at::kFloat), true); }),
       "a blocking copy to the device"},
      {"tensor_made_from_a_number", planted([](TrainingStep& s) { s.kept = at::tensor({1.0f}, kOnSim); }),
       "a blocking copy to the device"},
      {"device_synchronisation", planted([](TrainingStep&) { at::accelerator::synchronizeDevice(0); }),
       "a device synchronisation"},
      {"stream_synchronisation", planted([](TrainingStep& s) { s.side.synchronize(); }),
       "a stream synchronisation"},
      {"event_synchronisation", planted([](TrainingStep& s) { s.ready.synchronize(); }),
       "an event synchronisation"},
  };
}

std::vector<Fault> operand_faults() {
  return {
      {"labels_on_the_host",
       [](TrainingStep& s) { s.before_forward = [](TrainingStep& step) { step.labels = step.host_labels; }; },
       "aten::nll_loss_forward runs on sim:0 but got a CPULongType[8] on cpu"},
      {"ids_on_the_host",
       [](TrainingStep& s) { s.before_forward = [](TrainingStep& step) { step.ids = step.host_ids; }; },
       "but got a CPULongType[96] on cpu"},
      {"ids_on_the_other_device",
       [](TrainingStep& s) {
         s.before_forward = [](TrainingStep& step) { step.ids = at::zeros_like(step.ids, kSim1); };
       },
       "on sim:1"},
      {"a_mask_on_the_host",
       planted([](TrainingStep& s) { s.labels.masked_fill(at::zeros({8}, at::kBool), 0); }),
       "CPUBoolType[8] on cpu"},
      {"an_index_on_the_host", planted([](TrainingStep& s) { s.labels.index({at::zeros({1}, at::kLong)}); }),
       "aten::index.Tensor runs on sim:0 but got a CPULongType[1] on cpu"},
      {"one_of_a_list_on_the_host", planted([](TrainingStep& s) {
         at::_foreach_add_(std::vector<at::Tensor>{s.loss_sum, at::ones({2})}, 1);
       }),
       "aten::_foreach_add_.Scalar runs on sim:0 but got a CPUFloatType[2] on cpu"},
      {"a_moment_on_the_host",
       [](TrainingStep& s) {
         s.optimizer.first_moments().front() = at::zeros_like(s.optimizer.first_moments().front(), at::kCPU);
       },
       "aten::_fused_adamw_ runs on sim:0 but got a CPUFloatType[100, 32] on cpu"},
      {"a_weight_on_the_host", planted([](TrainingStep& s) {
         at::linear(s.model.get("head"), at::ones({2, 32}));
       }),
       "CPUFloatType"},
  };
}

class SimReadFaults : public SimTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(SimReadFaults, IsCaughtAndNamed) { EXPECT_SAYS(caught(GetParam().plant), GetParam().says); }

INSTANTIATE_TEST_SUITE_P(Reads, SimReadFaults, ::testing::ValuesIn(read_faults()), fault_name);
INSTANTIATE_TEST_SUITE_P(Waits, SimReadFaults, ::testing::ValuesIn(wait_faults()), fault_name);
INSTANTIATE_TEST_SUITE_P(Operands, SimReadFaults, ::testing::ValuesIn(operand_faults()), fault_name);

}  // namespace
}  // namespace finetune::sim
