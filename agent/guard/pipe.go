//go:build linux

package guard

import (
	"fmt"
	"net"
	"os"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// maxFiles are taken with one message.
const maxFiles = 4

// badMessage is one that came and cannot be read; the connection goes on.
type badMessage struct{ what string }

func (e *badMessage) Error() string { return "guard: message: " + e.what }

// receive takes one message and what descriptors came with it, which are the caller's to close, also beside a *badMessage. Any other
// error ends the connection; io.EOF is the other side's end.
func receive(conn *net.UnixConn) (b []byte, fds []int, err error) {
	b = make([]byte, maxMessage+1)
	space := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, spaceN, flags, _, err := conn.ReadMsgUnix(b, space)
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(space[:spaceN])
	if err != nil {
		return nil, nil, &badMessage{err.Error()}
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, fds, &badMessage{"control data that are no descriptors"}
		}
		fds = append(fds, got...)
	}
	switch {
	case flags&unix.MSG_CTRUNC != 0:
		return nil, fds, &badMessage{fmt.Sprintf("more than %d descriptors", maxFiles)}
	case flags&unix.MSG_TRUNC != 0 || n > maxMessage:
		return nil, fds, &badMessage{fmt.Sprintf("more than %d bytes", maxMessage)}
	}
	return b[:n], fds, nil
}

// send sends one message with files.
func send(conn *net.UnixConn, message any, files []*os.File) error {
	b, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("guard: message: %w", err)
	}
	return sendBytes(conn, b, files)
}

func sendBytes(conn *net.UnixConn, b []byte, files []*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err := conn.WriteMsgUnix(b, rights, nil)
	return err
}
