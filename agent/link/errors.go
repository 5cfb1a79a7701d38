package link

import (
	"errors"
	"strconv"
	"syscall"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Errors of Send. All exist from the start of the program, so that failing allocates nothing.
var (
	// ErrClosed: the link has been closed.
	ErrClosed = errors.New("link: closed")
	// ErrFrameSize: the frame is not a LowCmd's 614 bytes; nothing else leaves through this link.
	ErrFrameSize = errors.New("link: frame is not " + strconv.Itoa(wire.LowCmdSize) + " bytes")
	// ErrWouldBlock: the kernel's send queue is full, so nothing was sent.
	ErrWouldBlock = errors.New("link: send queue is full")
	// ErrRefused: nothing was sent, because ICMP port unreachable for earlier frames kept coming in between. One such
	// report alone does not stop a frame: Send clears it, counts it in Counters.Refused and sends.
	ErrRefused = errors.New("link: nothing listens at the robot's address and port")
)

// SendError is the system's error of a sendto that sent nothing. Errno is 0 only where Error says unknown.
type SendError struct{ Errno syscall.Errno }

// Error names the cause in the system's words.
func (e *SendError) Error() string {
	if e.Errno == 0 {
		return "link: send: unknown error"
	}
	return "link: send: " + e.Errno.Error()
}

// Unwrap makes errors.Is(err, syscall.ENETUNREACH) work.
func (e *SendError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// sendErrors holds the SendError of each errno Linux has.
var sendErrors = func() (t [134]SendError) {
	for i := range t {
		t[i].Errno = syscall.Errno(i)
	}
	return t
}()

// sendError is the error of a Send that failed with errno.
func sendError(errno syscall.Errno) error {
	switch {
	case errno == syscall.EBADF:
		return ErrClosed
	case errno == syscall.EAGAIN, errno == syscall.ENOBUFS:
		return ErrWouldBlock
	case errno == syscall.ECONNREFUSED:
		return ErrRefused
	case int(errno) < len(sendErrors):
		return &sendErrors[errno]
	}
	return &sendErrors[0]
}
