// Package session runs policies with ONNX Runtime. It is the only package that
// touches that library.
//
//	contract.File ─▶ Open ─▶ golden pairs replayed ─▶ Policy
//	                                                   │ Act: step.Obs ─▶ action
//	libonnxruntime.so, loaded once a process           │ (rows, no allocation)
//
// A Policy is one session of one thread: it computes on the goroutine that calls
// it and starts no other, so that it cannot take the cores of a control loop.
//
// # Loading
//
// ONNX Runtime does not give back all memory of a closed session (yalue/
// onnxruntime_go#113, microsoft/onnxruntime#26831): Open a file once, keep the
// Policy, and let checks that load many files run in a process of their own.
//
// The library and each session are opened from a fresh goroutine, which Go never
// runs on a thread that somebody locked and raised to real time: whatever thread
// the library might start inherits what the program's other threads have, which is
// an ordinary priority or, after agent/cli's Ahead, the lowest real-time one (FIFO
// 1), and never that of a control loop.
//
// # Where the library is found
//
// $OPENCLAW_ONNXRUNTIME (a file) alone if set; else libonnxruntime.so beside the
// program, in ../lib of it, or in .deps/<os>-<arch>/lib of the working folder, of
// the program's folder, or of any folder above those; `make deps` puts it there.
//
// Callers: the agent, the simulators, onnx/export, clawpolicy.
package session
