package session

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocate maps memory for a session's input and output, in numbers. ONNX Runtime
// keeps the addresses for the life of the tensors, which cgo's rules forbid for
// memory of Go's heap unless it is pinned; a forgotten runtime.Pinner panics in
// the collector, and a robot must not stop for that. Mapped memory does not move,
// is no business of the collector, and a page of it is all that a leak costs.
func (n *net) allocate(in, out int) error {
	const cacheLine = 16 // float32s: input and output share none
	at := (in + cacheLine - 1) / cacheLine * cacheLine
	memory, err := unix.Mmap(-1, 0, 4*(at+out), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("mapping %d bytes: %w", 4*(at+out), err)
	}
	n.memory = memory
	floats := unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), at+out)
	n.in, n.out = floats[:in:in], floats[at:]
	return nil
}

func (n *net) release() error {
	if n.memory == nil {
		return nil
	}
	return unix.Munmap(n.memory)
}
