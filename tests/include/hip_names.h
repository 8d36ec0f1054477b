/* The functions of HIP under the names that the programs of tests/hazards use: included in front of a program, it makes
 * the same program one for HIP and RCCL. Only what has the same parameters in both. */
#ifndef AIRAMP_TESTS_HIP_NAMES_H
#define AIRAMP_TESTS_HIP_NAMES_H

#define cudaGetDeviceCount hipGetDeviceCount
#define cudaSetDevice hipSetDevice
#define cudaMalloc hipMalloc
#define cudaFree hipFree
#define cudaMemcpy hipMemcpy
#define cudaStreamCreate hipStreamCreate
#define cudaStreamDestroy hipStreamDestroy
#define cudaStreamSynchronize hipStreamSynchronize
#define cudaStreamBeginCapture hipStreamBeginCapture
#define cudaStreamEndCapture hipStreamEndCapture
#define cudaGraphLaunch hipGraphLaunch
#define cudaGraphExecDestroy hipGraphExecDestroy
#define cudaGraphDestroy hipGraphDestroy
#define cudaLaunchHostFunc hipLaunchHostFunc

#endif
