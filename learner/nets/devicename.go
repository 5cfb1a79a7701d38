package nets

import (
	"fmt"
	"strconv"
	"strings"
)

// What Config.Device may be besides cuda:N.
const (
	CPU     = "cpu"      // core.cpp on Config.Workers threads; "" too
	CPUATen = "cpu:aten" // device.cpp on the CPU: what a GPU would do, to check it by
	CUDA    = "cuda"     // device.cpp on the first GPU
)

// maxGPUs is more than libtorch counts.
const maxGPUs = 128

// CheckDevice refuses what names no device, whether or not this machine has it.
func CheckDevice(name string) error {
	switch name {
	case "", CPU, CPUATen, CUDA:
		return nil
	}
	if n, is := strings.CutPrefix(name, CUDA+":"); is {
		if i, err := strconv.Atoi(n); err == nil && i >= 0 && i < maxGPUs && n == strconv.Itoa(i) {
			return nil
		}
	}
	return fmt.Errorf("device is %q, want %s, %s, %s:N (a GPU, N from 0 to %d) or %s", name, CPU, CUDA, CUDA, maxGPUs-1, CPUATen)
}
