package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// errLocked: another process has the robot.
var errLocked = errors.New("driven by another agent")

// lockRobot takes the robot for this process, so that no second agent, and no
// doctor, sends frames between ours. The lock is a name in the kernel's abstract
// socket space: it ends with the process however that ends, leaves no file, and
// is the same for every user and TMPDIR of this computer's network. The error
// wraps errLocked when another process holds it.
func lockRobot(robot netip.AddrPort) (unlock func(), err error) {
	name := "@clawagent/" + robot.String()
	l, err := net.Listen("unix", name)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("robot %s is %w (%s); stop that one first", robot, errLocked, holder(name))
	case err != nil:
		return nil, fmt.Errorf("lock of robot %s: %w", robot, err)
	}
	return func() { l.Close() }, nil
}

// holder names the process that listens on an abstract socket.
func holder(name string) string {
	const unknown = "process unknown"
	conn, err := net.DialTimeout("unix", name, time.Second)
	if err != nil {
		return unknown
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return unknown
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil || err != nil || cred.Pid == 0 {
		return unknown
	}
	return fmt.Sprintf("process %d", cred.Pid)
}
