// Every kernel of a code object, as one translation unit.
#include "dequantise.cu"
#include "dequantise_sum.cu"
#include "ghost.cu"
#include "quantise.cu"
#include "reduce.cu"
