package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockRobot takes the robot for this process, so that no second agent, and no
// doctor, sends frames between ours. The lock ends with the process.
func lockRobot(robot netip.AddrPort) (unlock func(), err error) {
	name := filepath.Join(os.TempDir(), "clawagent-"+strings.NewReplacer(":", "_", ".", "_").Replace(robot.String())+".lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("lock of robot %s: %w", robot, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		who := make([]byte, 32)
		n, _ := f.Read(who)
		f.Close()
		return nil, fmt.Errorf("robot %s is driven by another agent (process %s); stop that one first", robot, strings.TrimSpace(string(who[:n])))
	}
	_ = f.Truncate(0)
	fmt.Fprintln(f, os.Getpid()) // only a hint for the message above
	return func() { f.Close() }, nil
}
