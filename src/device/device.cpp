namespace finetune {}
