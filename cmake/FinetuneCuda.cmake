# The plugin libfinetune_cuda: every line of CUDA in the project.
