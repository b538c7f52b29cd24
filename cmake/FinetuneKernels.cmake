# CPU kernels are compiled once for each instruction set; src/kernels/cpu picks one when the program starts.
