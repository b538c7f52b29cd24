#include "finetune/checkpoint/python_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "finetune/core/error.h"
#include "finetune/core/text.h"
#include "parameter_order.h"
#include "pickle.h"
#include "tensor_bytes.h"
#include "weight_names.h"

namespace finetune {
namespace {

using Kind = PickleValue::Kind;

/// f(key, value) for each entry of a dict.
template <typename F>
void for_each_entry(const PickleValue& dict, const F& f) {
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) f(*dict.items[i], *dict.items[i + 1]);
}

class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& path)
      : file_(std::make_shared<const PthFile>(path)), place_(path.string()) {}

  PythonCheckpoint read() {
    const PickleValue& state_dict = file_->state_dict();
    result_.file = file_;
    result_.weights = file_->tensors(state_dict);
    result_.weights_key.clear();
    if (&state_dict == &file_->root()) return std::move(result_);
    std::vector<std::string> unused;
    for_each_entry(file_->root(), [&](const PickleValue& key, const PickleValue& value) {
      if (!key.is(Kind::kString)) return;
      if (&value == &state_dict) {
        result_.weights_key = key.text;
      } else if (key.text == "optimizer" || key.text == "optimizer_state_dict") {
        if (!value.is(Kind::kNone)) read_optimizer(value);
      } else if (key.text == "epoch") {
        read_epoch(value);
      } else {
        unused.push_back(key.text);
      }
    });
    if (!unused.empty()) result_.remarks.push_back("of no use here: " + join_some(unused));
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw CheckpointError(place_ + ": " + what); }

  /// A number, or a tensor of one.
  std::optional<double> number(const PickleValue* value) const {
    if (value == nullptr) return std::nullopt;
    if (value->is(Kind::kInt) || value->is(Kind::kBool)) return static_cast<double>(value->integer);
    if (value->is(Kind::kFloat)) return value->real;
    if (!value->is(Kind::kTensor)) return std::nullopt;
    const at::Tensor tensor = file_->tensor(*value);
    if (tensor.numel() != 1) return std::nullopt;
    return tensor.to(at::kDouble).item<double>();
  }
  static std::optional<bool> flag(const PickleValue* value) {
    if (value == nullptr || !value->is(Kind::kBool)) return std::nullopt;
    return value->integer != 0;
  }

  void read_epoch(const PickleValue& value) {
    const auto epoch = number(&value);
    if (!epoch || *epoch < 0 || *epoch > 1e9 || *epoch != std::floor(*epoch))
      refuse("'epoch' is no count of finished epochs; expected a whole number from 0 on");
    result_.epoch = static_cast<int64_t>(*epoch);
  }

  void read_optimizer(const PickleValue& optimizer);
  void collect_parameters();
  void read_groups(const PickleValue& groups);
  void name_groups(const PickleValue& optimizer, const PickleValue& groups);
  void add_names(size_t group, const PickleValue& names);
  void name_by_shapes();
  void read_moments(const std::string& name, const PickleValue& state);
  at::Tensor moment(const std::string& name, const PickleValue& state, const char* key);
  const PickleValue* state_of(const PickleValue& id) const;
  static std::string text_of(const PickleValue& id) {
    return id.is(Kind::kString) ? id.text : std::to_string(id.integer);
  }

  std::shared_ptr<const PthFile> file_;
  std::string place_;
  PythonCheckpoint result_;
  std::vector<ParameterShape> parameters_;        ///< what an optimizer may hold, in the state dict's order
  std::map<std::string, std::string> written_;    ///< unwrapped name -> name in the state dict
  std::map<std::string, at::IntArrayRef> sizes_;  ///< by name in the state dict
  std::map<std::string, const PickleValue*> states_;  ///< by parameter id
  std::vector<std::vector<const PickleValue*>> ids_;  ///< of each group
  bool low_precision_ = false;
};

void CheckpointReader::collect_parameters() {
  std::set<std::pair<const void*, std::vector<int64_t>>> seen;
  for (const auto& [name, tensor] : result_.weights) {
    written_.emplace(unwrapped_name(name), name);
    sizes_.emplace(name, tensor.sizes());
    if (!c10::isFloatingType(tensor.scalar_type())) continue;
    // A tied weight is one parameter under two names.
    if (tensor.numel() > 0 && !seen.emplace(tensor.const_data_ptr(), tensor.sizes().vec()).second) continue;
    parameters_.push_back({name, tensor.sizes().vec()});
  }
}

const PickleValue* CheckpointReader::state_of(const PickleValue& id) const {
  const auto found = states_.find(text_of(id));
  return found == states_.end() ? nullptr : found->second;
}

void CheckpointReader::read_optimizer(const PickleValue& optimizer) {
  const PickleValue* state = optimizer.find("state");
  const PickleValue* groups = optimizer.find("param_groups");
  if (state == nullptr || !state->is(Kind::kDict) || groups == nullptr || !groups->is(Kind::kList))
    refuse(
        "'optimizer' is no state dict of a torch optimizer: expected a dict with 'state' and 'param_groups'");
  for_each_entry(*state, [&](const PickleValue& id, const PickleValue& value) {
    if (!id.is(Kind::kInt) && !id.is(Kind::kString))
      refuse("the optimizer's state has a key that is neither a number nor a name");
    states_.emplace(text_of(id), &value);
  });
  collect_parameters();
  result_.optimizer.emplace();
  read_groups(*groups);
  if (states_.empty()) {
    result_.remarks.emplace_back("the optimizer was saved before its first step, so its state begins anew");
    return;
  }
  name_groups(optimizer, *groups);
  std::vector<std::string> fresh;
  for (size_t g = 0; g < ids_.size(); ++g) {
    for (size_t i = 0; i < ids_[g].size(); ++i) {
      const std::string& name = result_.optimizer->groups[g].names[i];
      const PickleValue* of_parameter = state_of(*ids_[g][i]);
      if (of_parameter == nullptr || of_parameter->items.empty()) {
        fresh.push_back(name);
      } else {
        read_moments(name, *of_parameter);
      }
    }
  }
  if (!fresh.empty()) result_.remarks.push_back("without moments, so they begin anew: " + join_some(fresh));
  if (low_precision_) {
    result_.remarks.emplace_back(
        "moments are stored in low precision and are widened: the run goes on close to the one that was "
        "saved, "
        "not exactly as it");
  }
}

void CheckpointReader::read_groups(const PickleValue& groups) {
  for (const PickleValue* item : groups.items) {
    const PickleValue* ids = item->find("params");
    if (ids == nullptr || !ids->is(Kind::kList))
      refuse("a param group of the optimizer has no list 'params'");
    for (const PickleValue* id : ids->items) {
      if (!id->is(Kind::kInt) && !id->is(Kind::kString))
        refuse("a param group of the optimizer lists something that is neither a number nor a name");
    }
    if (flag(item->find("maximize")).value_or(false))
      refuse("the optimizer maximizes, which is not done here; save the state of one that minimizes");
    ids_.push_back(ids->items);
    AdamGroup& group = result_.optimizer->groups.emplace_back();
    group.learning_rate = number(item->find("lr"));
    group.peak_learning_rate = number(item->find("initial_lr"));
    group.weight_decay = number(item->find("weight_decay"));
    group.eps = number(item->find("eps"));
    group.amsgrad = flag(item->find("amsgrad"));
    group.decoupled = flag(item->find("decoupled_weight_decay"));
    const PickleValue* betas = item->find("betas");
    if (betas != nullptr && betas->items.size() == 2) {
      group.beta1 = number(betas->items[0]);
      group.beta2 = number(betas->items[1]);
    }
  }
}

/// Names stand in each group (`param_names`), beside them for all groups, or are the ids themselves.
void CheckpointReader::name_groups(const PickleValue& optimizer, const PickleValue& groups) {
  const PickleValue* all_names = optimizer.find("param_names");
  size_t first = 0;
  bool named = !ids_.empty();
  for (size_t g = 0; g < ids_.size(); ++g) {
    const PickleValue* names = groups.items[g]->find("param_names");
    PickleValue own;
    own.kind = Kind::kList;
    if (names == nullptr && all_names != nullptr && all_names->items.size() >= first + ids_[g].size()) {
      const auto begin = all_names->items.begin() + static_cast<std::ptrdiff_t>(first);
      own.items.assign(begin, begin + static_cast<std::ptrdiff_t>(ids_[g].size()));
      names = &own;
    }
    const bool ids_are_names = std::all_of(ids_[g].begin(), ids_[g].end(),
                                           [](const PickleValue* id) { return id->is(Kind::kString); });
    if (names == nullptr && ids_are_names) {
      own.items = ids_[g];
      names = &own;
    }
    first += ids_[g].size();
    named = named && names != nullptr;
    if (named) add_names(g, *names);
  }
  if (!named) name_by_shapes();
}

void CheckpointReader::add_names(size_t group, const PickleValue& names) {
  if (names.items.size() != ids_[group].size()) {
    refuse("param group " + std::to_string(group) + " has " + std::to_string(ids_[group].size()) +
           " parameters but " + std::to_string(names.items.size()) + " param_names");
  }
  for (const PickleValue* name : names.items) {
    const auto found = name->is(Kind::kString) ? written_.find(unwrapped_name(name->text)) : written_.end();
    if (found == written_.end()) {
      refuse("param_names has '" + name->text +
             "', which the state dict beside it has not; save both of one "
             "model");
    }
    result_.optimizer->groups[group].names.push_back(found->second);
  }
}

void CheckpointReader::name_by_shapes() {
  std::vector<GroupShapes> shapes;
  for (const auto& ids : ids_) {
    GroupShapes& group = shapes.emplace_back();
    for (const PickleValue* id : ids) {
      const PickleValue* state = state_of(*id);
      const PickleValue* exp_avg = state == nullptr ? nullptr : state->find("exp_avg");
      const bool known = exp_avg != nullptr && exp_avg->is(Kind::kTensor);
      group.push_back(known ? std::optional(exp_avg->sizes) : std::nullopt);
    }
  }
  const auto matching = match_groups(parameters_, shapes, place_);
  for (size_t g = 0; g < matching.size(); ++g) {
    auto& names = result_.optimizer->groups[g].names;
    names.clear();
    for (const size_t i : matching[g]) names.push_back(parameters_[i].name);
  }
}

at::Tensor CheckpointReader::moment(const std::string& name, const PickleValue& state, const char* key) {
  const PickleValue* value = state.find(key);
  if (value == nullptr || !value->is(Kind::kTensor)) {
    std::vector<std::string> found;
    for_each_entry(state, [&](const PickleValue& k, const PickleValue&) { found.push_back(k.text); });
    refuse("the optimizer's state of " + name + " is not Adam's: it has no tensor " + key + ", but " +
           join_some(found) +
           "; go on with the weights alone by model.path, or save Adam's or AdamW's state");
  }
  const at::Tensor tensor = file_->tensor(*value);
  if (tensor.sizes() != sizes_.at(name)) {
    refuse("the optimizer's " + std::string(key) + " of " + name + " has shape " +
           shape_text(tensor.sizes()) + ", the parameter has " + shape_text(sizes_.at(name)));
  }
  if (!c10::isFloatingType(tensor.scalar_type()))
    refuse("the optimizer's " + std::string(key) + " of " + name + " holds no floating-point numbers");
  low_precision_ = low_precision_ || tensor.element_size() < 4;
  return tensor;
}

void CheckpointReader::read_moments(const std::string& name, const PickleValue& state) {
  AdamMoments moments;
  moments.exp_avg = moment(name, state, "exp_avg");
  moments.exp_avg_sq = moment(name, state, "exp_avg_sq");
  if (state.find("max_exp_avg_sq") != nullptr) moments.max_exp_avg_sq = moment(name, state, "max_exp_avg_sq");
  const auto step = number(state.find("step"));
  if (!step || !(*step >= 0) || *step > 1e15)
    refuse("the optimizer's step of " + name + " is no number from 0 on");
  moments.step = *step;
  if (!result_.optimizer->moments.emplace(name, std::move(moments)).second)
    refuse("the optimizer's state names " + name + " twice");
}

}  // namespace

PythonCheckpoint read_python_checkpoint(const std::filesystem::path& path) {
  return CheckpointReader(path).read();
}

}  // namespace finetune
